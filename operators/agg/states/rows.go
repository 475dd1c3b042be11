package states

import (
	"encoding/binary"
	"slices"

	"endoscope/operators/agg/fold"
	"endoscope/operators/agg/grouping"
	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// rowsVersion is the version of states that consist of rows. Encoders and aggregates
// of entities depend on the order of rows, so their state is the rows. A first stage
// keeps the arguments and the time of each row, in order and compressed (Rows). The
// merging stage reads them back (RowsReader) and folds them like any other rows.
//
// All rows of a sequence or of an entity come from one origin, in order. Rows of
// different origins belong to different sequences and entities, even if these have
// the same name.
//
// A state is its version followed by segments: the origin, the number of rows, 1 if
// the rows have a time, the number of bytes that follow, and the rows. A row is a bit
// for each argument after the first, set if it is NULL, then the arguments that are
// not NULL, then the difference of its time to that of the previous row. The first
// occurrence of a string in a segment is 0 and the string; later ones are its number,
// counted from 1.
const rowsVersion = 1

// Rows is the first stage of an aggregate whose state is rows.
type Rows struct {
	origin uint64
	args   []types.Type
	spaces []*grouping.Codes // of the strings of each argument, nil for others
	codes  [][]uint32        // scratch: of the rows of a batch, by argument
	groups []rowState
	timed  bool
	held   int64
}

// rowState is the rows of one group.
type rowState struct {
	rows int64
	last int64  // time of the last row
	own  []byte // rows; strings are codes of the spaces
	// merged holds the segments of merged states, mergedRows the number of their rows.
	merged     []byte
	mergedRows int64
}

// NewRows returns the first stage of f for rows of an origin.
func NewRows(f *plan.Agg, origin uint64) *Rows {
	a := &Rows{origin: origin}
	for _, x := range f.Args {
		a.args = append(a.args, x.Type())
		var s *grouping.Codes
		if x.Type().Physical() == types.PhysCode {
			s = grouping.NewCodes()
		}
		a.spaces = append(a.spaces, s)
	}
	a.codes = make([][]uint32, len(a.args))
	return a
}

func (a *Rows) Grow(n int) { a.groups = rowstore.Extended(a.groups, n) }

func (a *Rows) Reset() {
	clear(a.groups)
	a.groups, a.held = a.groups[:0], 0
	for _, s := range a.spaces {
		if s != nil {
			s.Reset()
		}
	}
}

// Bytes implements valueHolder.
func (a *Rows) Bytes() int64 { return a.held }

func (a *Rows) Update(in *fold.Input) {
	a.timed = in.Times != nil
	for i, s := range a.spaces {
		if s != nil {
			a.codes[i] = s.Translate(argument(in, i), in.Rows)
		}
	}
	for _, r := range in.Rows {
		g := &a.groups[in.Groups[r]]
		before := len(g.own)
		nulls := uint64(0)
		for i := range in.More {
			if in.More[i].Nulls.Get(int(r)) {
				nulls |= 1 << i
			}
		}
		g.own = binary.AppendUvarint(g.own, nulls)
		for i, t := range a.args {
			if i > 0 && nulls&(1<<(i-1)) != 0 {
				continue
			}
			switch c := argument(in, i); t.Physical() {
			case types.PhysCode:
				g.own = binary.AppendUvarint(g.own, uint64(a.codes[i][r]))
			case types.PhysInt:
				g.own = binary.AppendVarint(g.own, c.Int[r])
			default:
				g.own = AppendValue(g.own, c.Value(int(r)))
			}
		}
		if a.timed {
			g.own = binary.AppendVarint(g.own, in.Times[r]-g.last)
			g.last = in.Times[r]
		}
		g.rows++
		a.held += int64(len(g.own) - before)
	}
}

// argument returns the column of argument i.
func argument(in *fold.Input, i int) *batch.Column {
	if i == 0 {
		return in.Arg
	}
	return in.More[i-1]
}

// Merge appends the segments unchanged.
func (a *Rows) Merge(in *fold.Input, state []batch.Column) error {
	n := state[1].Int
	for _, r := range in.Rows {
		b := At(&state[0], r)
		if len(b) == 0 || b[0] != rowsVersion {
			return ErrNotState
		}
		g := &a.groups[in.Groups[r]]
		g.merged = append(g.merged, b[1:]...)
		g.mergedRows += n[r]
		a.held += int64(len(b))
	}
	return nil
}

// Output is not used: a first stage emits states.
func (a *Rows) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
	for i := range groups {
		out.Append(i, types.NullOf(out.Type))
	}
	return nil
}

func (a *Rows) States(groups []uint32, out []batch.Column) {
	var segment []byte
	AppendAll(groups, out, rowsVersion, func(g uint32) int64 { return a.groups[g].rows + a.groups[g].mergedRows },
		func(g uint32, to []byte) []byte {
			s := &a.groups[g]
			to = append(to, s.merged...)
			if s.rows == 0 {
				return to
			}
			segment = a.segment(s, segment[:0])
			timed := uint64(0)
			if a.timed {
				timed = 1
			}
			to = binary.AppendUvarint(to, a.origin)
			to = binary.AppendUvarint(to, uint64(s.rows))
			to = binary.AppendUvarint(to, timed)
			to = binary.AppendUvarint(to, uint64(len(segment)))
			return append(to, segment...)
		})
}

// segment appends the rows of a group; codes of strings become strings and numbers.
func (a *Rows) segment(g *rowState, to []byte) []byte {
	from := Reader{B: g.own}
	numbers := make([]map[uint64]uint64, len(a.args)) // by argument and code
	for i := range numbers {
		numbers[i] = map[uint64]uint64{}
	}
	next := uint64(1)
	for range g.rows {
		nulls := from.uvarint()
		to = binary.AppendUvarint(to, nulls)
		for i, t := range a.args {
			if i > 0 && nulls&(1<<(i-1)) != 0 {
				continue
			}
			switch t.Physical() {
			case types.PhysCode:
				code := from.uvarint()
				if number := numbers[i][code]; number != 0 {
					to = binary.AppendUvarint(to, number)
					continue
				}
				numbers[i][code] = next
				next++
				to = appendSized(append(to, 0), a.spaces[i].Values[code])
			case types.PhysInt:
				to = binary.AppendVarint(to, from.varint())
			default:
				to = AppendValue(to, from.Value(t, 0))
			}
		}
		if a.timed {
			to = binary.AppendVarint(to, from.varint())
		}
	}
	return to
}

// RowsReader reads states of rows back into columns.
type RowsReader struct {
	args  []types.Type
	dicts []*batch.Dict // of the strings of each argument
	times []int64
	in    fold.Input
	group [batch.MaxRows]uint32
	rows  [batch.MaxRows]uint16
	words [batch.MaxRows]uint64
}

// NewRowsReader returns a reader of the states of f.
func NewRowsReader(f *plan.Agg) *RowsReader {
	m := &RowsReader{}
	for _, x := range f.Args {
		m.args = append(m.args, x.Type())
	}
	m.dicts = make([]*batch.Dict, len(m.args))
	for i := range m.rows {
		m.rows[i] = uint16(i)
	}
	return m
}

// Read calls each with the rows of states, at most a batch at a time, and with their
// origin. Rows without a time have the time 0.
func (m *RowsReader) Read(in *fold.Input, state []batch.Column, each func(in *fold.Input, origin uint64)) error {
	return Merge(in, state, rowsVersion, func(group uint32, b []byte) bool {
		for i := range m.group {
			m.group[i] = group
		}
		s := Reader{B: b}
		for len(s.B) > 0 {
			origin, rows, timed := s.uvarint(), s.uvarint(), s.uvarint()
			segment := Reader{B: s.bytes(s.uvarint())}
			if s.Bad || rows > uint64(len(segment.B)) || timed > 1 || !m.segment(&segment, int(rows), timed == 1, origin, each) {
				return false
			}
		}
		return true
	})
}

// numbered is a string of a segment: the argument where it occurred first, and its
// code in the dictionary of that argument.
type numbered struct {
	arg  int
	code uint32
}

func (m *RowsReader) segment(s *Reader, rows int, timed bool, origin uint64, each func(in *fold.Input, origin uint64)) bool {
	var strings []numbered
	m.renewDicts()
	last := int64(0)
	for rows > 0 {
		n := min(rows, batch.MaxRows)
		rows -= n
		cols := m.columns()
		m.times = m.times[:0]
		for r := range n {
			nulls := s.uvarint()
			for i, t := range m.args {
				switch {
				case i > 0 && nulls&(1<<(i-1)) != 0:
					cols[i].Append(r, types.NullOf(t))
				case t.Physical() == types.PhysCode:
					k := s.uvarint()
					if k == 0 {
						strings = append(strings, numbered{i, m.dicts[i].Code(s.text())})
						k = uint64(len(strings))
					}
					if k > uint64(len(strings)) || strings[k-1].arg != i {
						return false
					}
					cols[i].Code = append(cols[i].Code, strings[k-1].code)
				case t.Physical() == types.PhysInt:
					cols[i].Int = append(cols[i].Int, s.varint())
				default:
					cols[i].Append(r, s.Value(t, 0))
				}
			}
			if timed {
				last += s.varint()
			}
			m.times = append(m.times, last)
		}
		if s.Bad {
			return false
		}
		for i, d := range m.dicts {
			if d != nil {
				cols[i].Values = d.Values()
			}
		}
		m.in = fold.Input{Rows: m.rows[:n], Groups: m.group[:], Arg: &cols[0], Times: m.times, Words: m.words[:]}
		for i := range cols[1:] {
			m.in.More = append(m.in.More, &cols[1+i])
		}
		each(&m.in, origin)
	}
	return len(s.B) == 0
}

// renewDicts replaces dictionaries that are missing or have grown too large.
func (m *RowsReader) renewDicts() {
	for i, t := range m.args {
		if t.Physical() == types.PhysCode && (m.dicts[i] == nil || m.dicts[i].Len() > rowstore.MaxDict) {
			m.dicts[i] = batch.NewDict()
		}
	}
}

// columns returns empty columns. They share the dictionaries of the previous ones, so
// that lookups cached by dictionary remain valid.
func (m *RowsReader) columns() []batch.Column {
	cols := make([]batch.Column, len(m.args))
	for i, t := range m.args {
		cols[i].Type, cols[i].Dict = t, m.dicts[i]
	}
	return cols
}

// InOrder reports whether an aggregate depends on the order of rows.
func InOrder(f *plan.Agg) bool {
	return plan.IsEncoder(f.Fn) || slices.ContainsFunc(plan.PresentAggs, func(p plan.AggFunc) bool { return p.Name == f.Fn })
}

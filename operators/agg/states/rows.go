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

// Aggregates that depend on the order of rows, which are encoders and aggregates of
// entities, have the rows as their state. A first stage keeps the arguments of
// each row and its time, in order and compressed (rowStates); where states are
// merged they are read back (rowsReader) and folded like any rows.
//
// All rows of a sequence, or of an entity, come from one place, and in order. The
// origin of a state says which place that is: rows of different origins are
// of different sequences and entities, even if these have the same name.
//
// A state is its version, and then segments: the origin, how many rows it has, 1
// if they have a time, how many bytes follow, and the rows. Of a row there are a bit
// for each argument, set where it is NULL, the arguments that are not, and the time
// as the distance from the row before. A string is 0 and the string where it comes
// first in the segment, and then 1, 2, ... in that order.
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
	// merged are segments of states, and how many rows these have.
	merged     []byte
	mergedRows int64
}

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

// argument is argument i of an aggregate.
func argument(in *fold.Input, i int) *batch.Column {
	if i == 0 {
		return in.Arg
	}
	return in.More[i-1]
}

// Merge keeps segments as they are.
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

// Output has no use: a first stage gives states.
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

// segment appends the rows of a group with their strings.
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

// Read calls each with the rows of states, at most a batch at once, and their
// origins. Rows without a time have times of 0.
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

// numbered is a string of a segment: the argument that had it first, and its code
// there.
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

// renewDicts makes the dictionaries of strings where they are missing or have grown.
func (m *RowsReader) renewDicts() {
	for i, t := range m.args {
		if t.Physical() == types.PhysCode && (m.dicts[i] == nil || m.dicts[i].Len() > rowstore.MaxDict) {
			m.dicts[i] = batch.NewDict()
		}
	}
}

// columns are empty ones, whose strings have the dictionaries of those before, so that
// what is known of these need not be looked up again.
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

package operators

import (
	"encoding/binary"
	"slices"

	"endoscope/operators/batch"
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

// rowStates is the first stage of an aggregate whose state is rows.
type rowStates struct {
	origin uint64
	args   []types.Type
	spaces []*codeSpace // of the strings of each argument, nil for others
	codes  [][]uint32   // scratch: of the rows of a batch, by argument
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

func newRowStates(f *plan.Agg, origin uint64) *rowStates {
	a := &rowStates{origin: origin}
	for _, x := range f.Args {
		a.args = append(a.args, x.Type())
		var s *codeSpace
		if x.Type().Physical() == types.PhysCode {
			s = newCodeSpace()
		}
		a.spaces = append(a.spaces, s)
	}
	a.codes = make([][]uint32, len(a.args))
	return a
}

func (a *rowStates) grow(n int) { a.groups = extended(a.groups, n) }

func (a *rowStates) reset() {
	clear(a.groups)
	a.groups, a.held = a.groups[:0], 0
	for _, s := range a.spaces {
		if s != nil {
			s.reset()
		}
	}
}

// bytes implements valueHolder.
func (a *rowStates) bytes() int64 { return a.held }

func (a *rowStates) update(in *folding) {
	a.timed = in.times != nil
	for i, s := range a.spaces {
		if s != nil {
			a.codes[i] = s.translate(argument(in, i), in.rows)
		}
	}
	for _, r := range in.rows {
		g := &a.groups[in.groups[r]]
		before := len(g.own)
		nulls := uint64(0)
		for i := range in.more {
			if in.more[i].Nulls.Get(int(r)) {
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
				g.own = appendStateValue(g.own, c.Value(int(r)))
			}
		}
		if a.timed {
			g.own = binary.AppendVarint(g.own, in.times[r]-g.last)
			g.last = in.times[r]
		}
		g.rows++
		a.held += int64(len(g.own) - before)
	}
}

// argument is argument i of an aggregate.
func argument(in *folding, i int) *batch.Column {
	if i == 0 {
		return in.arg
	}
	return in.more[i-1]
}

// merge keeps segments as they are.
func (a *rowStates) merge(in *folding, state []batch.Column) error {
	n := state[1].Int
	for _, r := range in.rows {
		b := stateAtRow(&state[0], r)
		if len(b) == 0 || b[0] != rowsVersion {
			return errNoState
		}
		g := &a.groups[in.groups[r]]
		g.merged = append(g.merged, b[1:]...)
		g.mergedRows += n[r]
		a.held += int64(len(b))
	}
	return nil
}

// output has no use: a first stage gives states.
func (a *rowStates) output(groups []uint32, out *batch.Column, _ instant) error {
	for i := range groups {
		out.Append(i, types.NullOf(out.Type))
	}
	return nil
}

func (a *rowStates) states(groups []uint32, out []batch.Column) {
	var segment []byte
	opaqueStates(groups, out, rowsVersion, func(g uint32) int64 { return a.groups[g].rows + a.groups[g].mergedRows },
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
func (a *rowStates) segment(g *rowState, to []byte) []byte {
	from := stateReader{b: g.own}
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
				to = appendSized(append(to, 0), a.spaces[i].values[code])
			case types.PhysInt:
				to = binary.AppendVarint(to, from.varint())
			default:
				to = appendStateValue(to, from.value(t, 0))
			}
		}
		if a.timed {
			to = binary.AppendVarint(to, from.varint())
		}
	}
	return to
}

// rowsReader reads states of rows back into columns.
type rowsReader struct {
	args  []types.Type
	dicts []*batch.Dict // of the strings of each argument
	times []int64
	in    folding
	group [batch.MaxRows]uint32
	rows  [batch.MaxRows]uint16
	words [batch.MaxRows]uint64
}

func newRowsReader(f *plan.Agg) *rowsReader {
	m := &rowsReader{}
	for _, x := range f.Args {
		m.args = append(m.args, x.Type())
	}
	m.dicts = make([]*batch.Dict, len(m.args))
	for i := range m.rows {
		m.rows[i] = uint16(i)
	}
	return m
}

// read calls fold with the rows of states, at most a batch at once, and their
// origins. Rows without a time have times of 0.
func (m *rowsReader) read(in *folding, state []batch.Column, fold func(in *folding, origin uint64)) error {
	return mergeOpaque(in, state, rowsVersion, func(group uint32, b []byte) bool {
		for i := range m.group {
			m.group[i] = group
		}
		s := stateReader{b: b}
		for len(s.b) > 0 {
			origin, rows, timed := s.uvarint(), s.uvarint(), s.uvarint()
			segment := stateReader{b: s.bytes(s.uvarint())}
			if s.bad || rows > uint64(len(segment.b)) || timed > 1 || !m.segment(&segment, int(rows), timed == 1, origin, fold) {
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

func (m *rowsReader) segment(s *stateReader, rows int, timed bool, origin uint64, fold func(in *folding, origin uint64)) bool {
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
					cols[i].Append(r, s.value(t, 0))
				}
			}
			if timed {
				last += s.varint()
			}
			m.times = append(m.times, last)
		}
		if s.bad {
			return false
		}
		for i, d := range m.dicts {
			if d != nil {
				cols[i].Values = d.Values()
			}
		}
		m.in = folding{rows: m.rows[:n], groups: m.group[:], arg: &cols[0], times: m.times, words: m.words[:]}
		for i := range cols[1:] {
			m.in.more = append(m.in.more, &cols[1+i])
		}
		fold(&m.in, origin)
	}
	return len(s.b) == 0
}

// renewDicts makes the dictionaries of strings where they are missing or have grown.
func (m *rowsReader) renewDicts() {
	for i, t := range m.args {
		if t.Physical() == types.PhysCode && (m.dicts[i] == nil || m.dicts[i].Len() > maxDict) {
			m.dicts[i] = batch.NewDict()
		}
	}
}

// columns are empty ones, whose strings have the dictionaries of those before, so that
// what is known of these need not be looked up again.
func (m *rowsReader) columns() []batch.Column {
	cols := make([]batch.Column, len(m.args))
	for i, t := range m.args {
		cols[i].Type, cols[i].Dict = t, m.dicts[i]
	}
	return cols
}

// foldsInOrder reports whether an aggregate depends on the order of rows.
func foldsInOrder(f *plan.Agg) bool {
	return plan.IsEncoder(f.Fn) || slices.ContainsFunc(plan.PresentAggs, func(p plan.AggFunc) bool { return p.Name == f.Fn })
}

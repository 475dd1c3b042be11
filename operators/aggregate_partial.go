package operators

import (
	"context"
	"fmt"
	"slices"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// partials is the port of an aggregate for partial rows (plan.Partial): groups
// that its source has folded already. They meet the rows on the other port in
// the same groups, and what they hold is exact, so that it makes no difference
// which events came which way.
//
// Where the aggregate has windows the rows have two columns more, the borders
// of a window that the pane lies in.
type partials struct {
	a      *aggregate
	fields int       // of a partial row
	states []stateAt // by aggregate
	all    int       // column of how many events there were, or -1: nothing says it
	rows   []uint16  // scratch: those that change an aggregate
}

// stateAt is where the state of one aggregate lies in a partial row: its
// columns, of which n is the number of values folded in.
type stateAt struct{ from, to, n int }

// merger is an accumulator that takes states computed elsewhere.
type merger interface {
	// merge adds the states at in.rows to their groups. state are the columns
	// that plan.StateFields gives the function; n is not 0 at these rows. An
	// error says that one of them is no state.
	merge(in *folding, state []batch.Column) error
}

// newPartials checks that what p computes is what a merges.
func newPartials(a *aggregate, p *plan.Partial) (*partials, error) {
	m := &partials{a: a}
	if len(p.Keys) != len(a.keys) || len(p.Aggs) != len(a.aggs) {
		return nil, fmt.Errorf("%s does not merge %s", a.node.Describe(), p)
	}
	for i := range p.Aggs {
		f := &p.Aggs[i]
		_, ok := plan.StateFields(f)
		if ok {
			_, ok = a.anySet().accs[i].(merger)
		}
		if !ok || f.Fn != a.aggs[i].fn.Fn {
			return nil, fmt.Errorf("%s does not merge %s", a.node.Describe(), f)
		}
	}
	m.layout(p)
	return m, nil
}

// layout notes where p's states lie.
func (m *partials) layout(p *plan.Partial) {
	m.fields, m.all = 1+len(p.Keys), -1
	for i := range p.Aggs {
		f := &p.Aggs[i]
		fields, _ := plan.StateFields(f)
		n := m.fields + slices.IndexFunc(fields, func(f types.Field) bool { return f.Name == "n" })
		m.states = append(m.states, stateAt{m.fields, m.fields + len(fields), n})
		m.fields += len(fields)
		if f.Star && f.Filter == nil && m.all < 0 {
			m.all = n
		}
	}
}

// anySet is some set of groups, for what all of them have in common.
func (a *aggregate) anySet() *groupSet {
	if a.windows != nil {
		return a.windows.idle[0] // before the first row
	}
	return a.all
}

func (m *partials) Push(ctx context.Context, _ int, b *batch.Batch) (Status, error) {
	a := m.a
	if a.out.status != More || b.Len() == 0 {
		return a.out.status, nil
	}
	rows := rowsOf(b)
	for i, k := range a.keys {
		k.take(&b.Cols[1+i], rows)
	}
	if a.windows != nil {
		return a.out.status, m.pushWindows(ctx, b, rows)
	}
	if err := m.merge(ctx, a.all, b, rows); err != nil {
		return a.out.status, err
	}
	return a.out.status, a.folded(ctx, rows)
}

// pushWindows merges each row into its window. What is late is lost, as with
// rows, and counted in events.
func (m *partials) pushWindows(ctx context.Context, b *batch.Batch, rows []uint16) error {
	a := m.a
	var starts []int64
	if a.windows.startOf != nil {
		starts = b.Cols[m.fields].Int
	}
	late, err := a.divide(rows, b.Cols[0].Int, starts, b.Cols[m.fields+1].Int)
	if err != nil {
		return err
	}
	for _, p := range a.windows.parts {
		if err := m.merge(ctx, p.set, b, p.rows); err != nil {
			return err
		}
	}
	return a.lost(ctx, "late", m.events(b, late))
}

// merge adds the states of rows, whose keys were taken, to the groups of s.
func (m *partials) merge(ctx context.Context, s *groupSet, b *batch.Batch, rows []uint16) error {
	a := m.a
	rows, refused := a.place(s, rows)
	if err := a.lost(ctx, groupsFull, m.events(b, refused)); err != nil {
		return err
	}
	if err := m.mergeInto(ctx, s, b, rows); err != nil {
		return err
	}
	return a.fits()
}

// mergeInto adds the states of rows, which have groups in s.
func (m *partials) mergeInto(ctx context.Context, s *groupSet, b *batch.Batch, rows []uint16) error {
	a := m.a
	in := &a.in
	for i, acc := range s.accs {
		at := m.states[i]
		*in = folding{groups: a.groups[:], words: a.words[:]}
		if in.rows = m.changing(b.Cols[at.n].Int, rows); len(in.rows) == 0 {
			continue
		}
		v, grows := acc.(valueHolder)
		if grows {
			a.held -= v.bytes()
		}
		err := acc.(merger).merge(in, b.Cols[at.from:at.to])
		if grows {
			a.held += v.bytes()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", a.aggs[i].fn, err)
		}
		if e, ok := acc.(*encoding); ok {
			if err := a.lost(ctx, encoderFull, e.takeRefused()); err != nil {
				return err
			}
		}
	}
	return nil
}

// changing is those of rows that have values of an aggregate.
func (m *partials) changing(n []int64, rows []uint16) []uint16 {
	m.rows = m.rows[:0]
	for _, r := range rows {
		if n[r] != 0 {
			m.rows = append(m.rows, r)
		}
	}
	return m.rows
}

// events is how many events rows stand for. Without a COUNT(*) that says it,
// it is at least the most values that one of the aggregates had of them: a loss
// is never reported as nothing.
func (m *partials) events(b *batch.Batch, rows []uint16) (n uint64) {
	for _, r := range rows {
		if m.all >= 0 {
			n += uint64(b.Cols[m.all].Int[r])
			continue
		}
		most := int64(1)
		for _, at := range m.states {
			most = max(most, b.Cols[at.n].Int[r])
		}
		n += uint64(most)
	}
	return n
}

// Signals come on the other port; they are for both.
func (m *partials) Signal(context.Context, int, Signal) (Status, error) { return m.a.out.status, nil }
func (m *partials) Close(context.Context, int) error                    { return nil }

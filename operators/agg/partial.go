package agg

import (
	"context"
	"fmt"
	"slices"

	"endoscope/operators"
	"endoscope/operators/agg/encode"
	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// partials is the port of an aggregate for partial rows (plan.Partial): groups
// that its source has already folded. They are merged into the same groups as the
// rows on the other port. States are exact, so the result does not depend on which
// events arrive on which port.
//
// If the aggregate has windows, the rows have two additional columns: the borders
// of a window that contains the pane.
type partials struct {
	a      *Aggregate
	fields int       // of a partial row
	states []stateAt // by aggregate
	all    int       // column with the number of events; -1 if there is none
	rows   []uint16  // scratch: those that change an aggregate
}

// stateAt is the range of columns of one aggregate's state in a partial row; n is
// the column with the number of values folded in.
type stateAt struct{ from, to, n int }

// NewPartials checks that p computes what a merges.
func NewPartials(a *Aggregate, p *plan.Partial) (*partials, error) {
	m := &partials{a: a}
	if len(p.Keys) != len(a.keys) || len(p.Aggs) != len(a.aggs) {
		return nil, fmt.Errorf("%s does not merge %s", a.node.Describe(), p)
	}
	for i := range p.Aggs {
		f := &p.Aggs[i]
		_, ok := plan.StateFields(f)
		if ok {
			_, ok = a.anySet().accs[i].(fold.Merger)
		}
		if !ok || f.Fn != a.aggs[i].fn.Fn {
			return nil, fmt.Errorf("%s does not merge %s", a.node.Describe(), f)
		}
	}
	m.layout(p)
	a.byPlace = p.ByPlace
	return m, nil
}

// layout records the columns of p's states.
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

// anySet returns any set of groups, for access to what all sets have in common.
func (a *Aggregate) anySet() *groupSet {
	if a.windows != nil {
		return a.windows.idle[0] // before the first row
	}
	return a.all
}

func (m *partials) Push(ctx context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	a := m.a
	if a.out.Status != operators.More || b.Len() == 0 {
		return a.out.Status, nil
	}
	rows := batch.RowsOf(b)
	for i, k := range a.keys {
		k.Load(&b.Cols[1+i], rows)
	}
	if a.windows != nil {
		return a.out.Status, m.pushWindows(ctx, b, rows)
	}
	if err := m.merge(ctx, a.all, b, rows); err != nil {
		return a.out.Status, err
	}
	return a.out.Status, a.folded(ctx, rows)
}

// pushWindows merges each row into its window. Late rows are lost, as on the other
// port, and their events are counted.
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

// merge adds the states of rows, whose keys were loaded, to the groups of s.
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
		*in = fold.Input{Groups: a.groups[:], Words: a.words[:]}
		if in.Rows = m.changing(b.Cols[at.n].Int, rows); len(in.Rows) == 0 {
			continue
		}
		v, grows := acc.(valueHolder)
		if grows {
			a.held -= v.Bytes()
		}
		err := acc.(fold.Merger).Merge(in, b.Cols[at.from:at.to])
		if grows {
			a.held += v.Bytes()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", a.aggs[i].fn, err)
		}
		if e, ok := acc.(*encode.Encoding); ok {
			if err := a.lost(ctx, encode.EncoderFull, e.ResetRefused()); err != nil {
				return err
			}
		}
	}
	return nil
}

// changing returns those of rows that have values of an aggregate.
func (m *partials) changing(n []int64, rows []uint16) []uint16 {
	m.rows = m.rows[:0]
	for _, r := range rows {
		if n[r] != 0 {
			m.rows = append(m.rows, r)
		}
	}
	return m.rows
}

// events returns how many events the rows represent. Without a COUNT(*) it returns
// a lower bound, the largest number of values in one of the aggregates: a loss is
// never reported as 0.
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

// Signals arrive on the other port and apply to both.
func (m *partials) Signal(context.Context, int, operators.Signal) (operators.Status, error) {
	return m.a.out.Status, nil
}

func (m *partials) Close(context.Context, int) error { return nil }

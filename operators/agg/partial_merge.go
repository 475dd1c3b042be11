package agg

import (
	"context"
	"math"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
	"endoscope/planner/plan"
)

// MergePartials reduces the number of partial rows of the first stage p: states of
// one group are merged into one row. Rows of different panes are of different
// groups; without panes a row gets the earliest time. It releases the batches and
// returns new ones. If a state cannot be read it returns the batches unchanged.
func MergePartials(p *plan.Partial, batches []*batch.Batch) []*batch.Batch {
	s, err := newMergedStates(p)
	if err != nil || len(batches) == 0 {
		return batches
	}
	for _, b := range batches {
		if err := s.add(b); err != nil {
			return batches
		}
	}
	var out []*batch.Batch
	if err := s.stage.Emit(func(b *batch.Batch) error {
		out = append(out, b)
		return nil
	}); err != nil {
		return batches
	}
	for _, b := range batches {
		b.Release()
	}
	return out
}

// mergedStates folds partial rows into the groups of a first stage.
type mergedStates struct {
	stage  *FirstStage
	states partials
	times  []int64   // by group, where there are no panes
	counts [][]int64 // by aggregate and group: how many values were folded in
}

func newMergedStates(p *plan.Partial) (*mergedStates, error) {
	a := &Aggregate{out: operators.Output{To: nowhere{}}, node: &plan.Aggregate{}, time: -1, stage: true, maxGroups: math.MaxInt32}
	kinds := p.Out.Types()
	for i := range 1 + len(p.Keys) {
		if i == 0 && p.Pane == 0 {
			continue
		}
		if err := a.addKey(&plan.Col{Index: i, Name: p.Out.Fields[i].Name, T: kinds[i]}, kinds); err != nil {
			return nil, err
		}
	}
	for i := range p.Aggs {
		a.aggs = append(a.aggs, &aggColumn{fn: &p.Aggs[i]})
	}
	var err error
	if a.all, err = a.newSet(); err != nil {
		return nil, err
	}
	s := &mergedStates{stage: &FirstStage{p: p, a: a, time: -1, some: true}, states: partials{a: a}, counts: make([][]int64, len(p.Aggs))}
	s.stage.merged = s
	s.states.layout(p)
	return s, nil
}

func (s *mergedStates) add(b *batch.Batch) error {
	a := s.stage.a
	rows := batch.RowsOf(b)
	keys := b.Cols[:1+len(s.stage.p.Keys)]
	if s.stage.p.Pane == 0 {
		keys = keys[1:]
	}
	for i, k := range a.keys {
		k.Load(&keys[i], rows)
	}
	known := len(s.times)
	rows, _ = a.place(a.all, rows)
	groups := a.all.table.Len()
	s.times = rowstore.Extended(s.times, groups)
	for g := known; g < groups; g++ {
		s.times[g] = math.MaxInt64
	}
	for _, r := range rows {
		g := a.groups[r]
		s.times[g] = min(s.times[g], b.Cols[0].Int[r])
	}
	for i, at := range s.states.states {
		s.counts[i] = rowstore.Extended(s.counts[i], groups)
		n := b.Cols[at.n].Int
		for _, r := range rows {
			s.counts[i][a.groups[r]] += n[r]
		}
	}
	return s.states.mergeInto(context.Background(), a.all, b, rows)
}

// appendTimes appends the earliest times of groups.
func (s *mergedStates) appendTimes(c *batch.Column, groups []uint32) {
	for _, g := range groups {
		c.Int = append(c.Int, s.times[g])
	}
}

// setCounts sets the numbers of values in the states of an aggregate to those of
// all merged states.
func (s *mergedStates) setCounts(agg int, groups []uint32, state []batch.Column) {
	at := s.states.states[agg]
	n := state[at.n-at.from].Int
	for i, g := range groups {
		n[i] = s.counts[agg][g]
	}
}

// PartialEvents returns how many events partial rows of the first stage p
// represent; without a COUNT(*) it is a lower bound.
func PartialEvents(p *plan.Partial, b *batch.Batch) uint64 {
	var m partials
	m.layout(p)
	return m.events(b, batch.RowsOf(b))
}

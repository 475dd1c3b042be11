package agg

import (
	"context"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// stateOutput emits the states of groups instead of their results
// (plan.Aggregate.States). States are cumulative. A group has one row with the states of
// fixed size, and one row for each entry of a counter.
type stateOutput struct {
	a *Aggregate
	p *plan.Partial
}

func newStateOutput(a *Aggregate, n *plan.Aggregate) (*stateOutput, error) {
	keys, aggs, _ := n.Stage()
	p, ok := plan.NewPartial(keys, aggs, 0)
	if !ok {
		return nil, plan.Errorf(-1, -1, "%s has no states", n.Describe())
	}
	if n.Confidence > 0 {
		p = plan.NewEstimatedPartial(p, false) // which its reader knows
	}
	return &stateOutput{a, p}, nil
}

// pushAll pushes the states of all groups of s.
func (g *stateOutput) pushAll(ctx context.Context, s *groupSet) error {
	for from := 0; from < s.table.Len(); from += batch.MaxRows {
		n := min(s.table.Len()-from, batch.MaxRows)
		for i := range n {
			g.a.ids[i] = uint32(from + i)
		}
		if err := g.send(ctx, g.rows(s, g.a.ids[:n], -1, nil)); err != nil {
			return err
		}
	}
	return g.entries(ctx, s, func(uint32) bool { return true })
}

// pushChanged pushes all states of groups that have changed, and then Flush.
func (g *stateOutput) pushChanged(ctx context.Context, s *groupSet, groups []uint32, now int64) error {
	if len(groups) == 0 {
		return nil
	}
	changed := make(map[uint32]bool, len(groups))
	for _, id := range groups {
		changed[id] = true
	}
	if err := g.send(ctx, g.rows(s, groups, -1, nil)); err != nil {
		return err
	}
	if err := g.entries(ctx, s, func(id uint32) bool { return changed[id] }); err != nil {
		return err
	}
	_, err := g.a.out.Signal(ctx, operators.Signal{Kind: operators.Flush, Time: now})
	return err
}

// entries pushes the entries of counters of the groups that are selected.
func (g *stateOutput) entries(ctx context.Context, s *groupSet, selected func(uint32) bool) error {
	for i, acc := range s.accs {
		counts, ok := counterOf(acc)
		if !ok {
			continue
		}
		var part []pair
		push := func() error {
			for k, e := range part {
				g.a.ids[k] = e.group
			}
			b := g.rows(s, g.a.ids[:len(part)], i, part)
			part = part[:0]
			return g.send(ctx, b)
		}
		for _, e := range counts.counted() {
			if !selected(e.group) {
				continue
			}
			if part = append(part, e); len(part) == batch.MaxRows {
				if err := push(); err != nil {
					return err
				}
			}
		}
		if len(part) > 0 {
			if err := push(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *stateOutput) send(ctx context.Context, b *batch.Batch) error {
	defer b.Release()
	if g.a.out.Status != operators.More {
		return nil
	}
	_, err := g.a.out.Push(ctx, b)
	return err
}

// rows returns partial rows of groups: all states but those of counters, or the entries of
// counter number only.
func (g *stateOutput) rows(s *groupSet, groups []uint32, only int, entries []pair) *batch.Batch {
	b := batch.New(g.p.Out.Types())
	b.N = len(groups)
	appendSame(&b.Cols[0], 0, len(groups))
	keys := b.Cols[1 : 1+len(g.p.Keys)]
	for i := range keys {
		if keys[i].Type.Physical() == types.PhysCode {
			keys[i].Dict = batch.NewDict()
		}
	}
	g.a.emitKeys(s, groups, keys)
	appendStateColumns(g.p, s.accs, nil, groups, b.Cols[1+len(keys):], only, entries)
	return b
}

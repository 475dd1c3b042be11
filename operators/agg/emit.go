package agg

import (
	"context"
	"errors"

	"endoscope/operators"
	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// emitTotals pushes every group, then flush.
func (a *Aggregate) emitTotals(ctx context.Context, flush operators.Signal, now int64) error {
	a.preview = flush.Preview
	err := a.emitAll(ctx, a.all, now)
	a.preview = false
	var unfit *plan.Error
	if err != nil && !(flush.Preview && errors.As(err, &unfit)) {
		return err
	}
	// A total that overflows its type now may fit in the end, so an overflow ends the
	// preview but not the query.
	if !flush.Preview {
		a.printed, a.changed = true, false
	}
	_, err = a.out.Signal(ctx, flush)
	return err
}

func (a *Aggregate) Close(ctx context.Context, _ int) error {
	if err := a.finish(ctx); err != nil {
		return err
	}
	return a.out.Close(ctx)
}

// finish pushes the results that are still pending.
func (a *Aggregate) finish(ctx context.Context) error {
	switch {
	case a.out.Status != operators.More:
		return nil
	case a.windows != nil:
		return a.closeAllWindows(ctx)
	case a.node.Emit.Mode == plan.Changes:
		return nil
	case a.node.Emit.Mode == plan.Every && a.printed && !a.changed:
		return nil
	}
	now := a.now()
	return a.emitTotals(ctx, operators.Signal{Kind: operators.Flush, Time: now}, now)
}

// emitAll pushes all groups of s.
func (a *Aggregate) emitAll(ctx context.Context, s *groupSet, now int64) error {
	if a.states != nil {
		return a.states.pushAll(ctx, s)
	}
	for from := 0; from < s.table.Len(); from += batch.MaxRows {
		n := min(s.table.Len()-from, batch.MaxRows)
		for i := range n {
			a.ids[i] = uint32(from + i)
		}
		if err := a.emit(ctx, s, a.ids[:n], now); err != nil {
			return err
		}
	}
	return nil
}

// emit pushes at most a batch of groups.
func (a *Aggregate) emit(ctx context.Context, s *groupSet, groups []uint32, now int64) error {
	if len(groups) == 0 || a.out.Status != operators.More {
		return nil
	}
	if a.states != nil {
		return a.states.pushChanged(ctx, s, groups, now)
	}
	b := a.pool.Get()
	defer b.Release()
	b.N = len(groups)
	a.emitKeys(s, groups, b.Cols[:len(a.node.Keys)])
	at := fold.Instant{Elapsed: now - a.Start, Preview: a.preview}
	if a.windows != nil {
		at.Elapsed = s.length
	}
	for i, acc := range s.accs {
		c := &b.Cols[len(a.node.Keys)+i]
		a.newDict(len(a.node.Keys)+i, c)
		if err := acc.Output(groups, c, at); err != nil {
			return err
		}
	}
	_, err := a.out.Push(ctx, b)
	return err
}

func (a *Aggregate) emitKeys(s *groupSet, groups []uint32, cols []batch.Column) {
	k := 0
	for i := range cols {
		switch {
		case a.windows != nil && i == a.windows.startKey:
			appendSame(&cols[i], s.start, len(groups))
		case a.windows != nil && i == a.windows.endKey:
			appendSame(&cols[i], s.end, len(groups))
		default:
			s.table.Output(k, groups, &cols[i])
			k++
		}
	}
}

func appendSame(c *batch.Column, v int64, n int) {
	for range n {
		c.Int = append(c.Int, v)
	}
}

// newDict sets the dictionary of a string result column. It replaces a dictionary
// that has grown too large: results of closed windows are not needed again.
func (a *Aggregate) newDict(i int, c *batch.Column) {
	if c.Type.Physical() != types.PhysCode {
		return
	}
	if a.dicts[i] == nil || a.dicts[i].Len() > rowstore.MaxDict {
		a.dicts[i] = batch.NewDict()
	}
	c.Dict = a.dicts[i]
}

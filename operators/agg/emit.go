package agg

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"endoscope/operators"
	"endoscope/operators/agg/approx"
	"endoscope/operators/agg/fold"
	"endoscope/operators/agg/grouping"
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
	if a.node.Confidence > 0 {
		return a.emitEstimates(ctx, s, now)
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

// emitEstimates pushes the groups of s, whose states are by place and replicate, as
// estimates.
func (a *Aggregate) emitEstimates(ctx context.Context, s *groupSet, now int64) error {
	table, groups, err := a.regroup(s)
	if err != nil {
		return err
	}
	var ids []uint32
	events := a.hidden(s, 0)
	for g := range groups {
		if len(a.node.Keys) == 0 || groups[g].Events(events) > 0 {
			ids = append(ids, uint32(g))
		}
	}
	elapsed := now - a.Start
	if a.windows != nil {
		elapsed = s.length
	}
	of := &groupSet{start: s.start, end: s.end, table: table}
	for len(ids) > 0 && a.out.Status == operators.More {
		some := ids[:min(len(ids), batch.MaxRows)]
		ids = ids[len(some):]
		b := a.pool.Get()
		b.N = len(some)
		a.emitKeys(of, some, b.Cols[:len(a.node.Keys)])
		for row, g := range some {
			cols := b.Cols[len(a.node.Keys):]
			for i := range a.node.Aggs {
				if err := a.appendEstimate(cols, row, &groups[g], i, s.accs[i], events, elapsed); err != nil {
					b.Release()
					return err
				}
				cols = cols[plan.EstimateColumns:]
			}
			for _, x := range a.node.Derived {
				appendSeen(cols, row, &groups[g], events)
				if err := appendResult(cols, row, groups[g].Derived(x, a.node.Aggs, s.accs, elapsed)); err != nil {
					b.Release()
					return err
				}
				cols = cols[plan.EstimateColumns:]
			}
		}
		_, err := a.out.Push(ctx, b)
		b.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// hidden returns the accumulator of one of the last aggregates of the partial rows.
func (a *Aggregate) hidden(s *groupSet, i int) fold.Moments {
	return s.accs[len(a.node.Aggs)+i].(fold.Moments)
}

// regroup returns the groups of the statement, with their states in s.
func (a *Aggregate) regroup(s *groupSet) (grouping.Table, []approx.Group, error) {
	behind, _, _ := a.node.Stage()
	values := len(behind) - len(a.node.Keys)
	own := len(a.keys) - plan.HiddenKeys - values
	keys := a.keys[:own]
	table := grouping.NewTable(keys, &a.scratch)
	places := &approx.Places{Loose: !a.byPlace}
	var groups []approx.Group
	var kinds []types.Type
	for _, k := range a.keys {
		kinds = append(kinds, k.Typ)
	}
	grow := func() {
		for len(groups) < table.Len() {
			groups = append(groups, approx.Group{Places: places, Confidence: a.node.Confidence})
		}
	}
	grow()
	value := func(part int, state uint32) float64 { n, _, _ := a.hidden(s, part).Moments(state); return n }
	for from := 0; from < s.table.Len(); from += batch.MaxRows {
		n := min(s.table.Len()-from, batch.MaxRows)
		b := batch.New(kinds)
		b.N = n
		for i := range n {
			a.ids[i] = uint32(from + i)
		}
		for i := range b.Cols {
			s.table.Output(i, a.ids[:n], &b.Cols[i])
		}
		rows := batch.RowsOf(b)
		for i, k := range keys {
			k.Load(&b.Cols[i], rows)
		}
		table.Assign(rows, a.groups[:], a.maxGroups)
		grow()
		for row, state := range a.ids[:n] {
			hidden := b.Cols[own+values:]
			place := places.Number(hidden[0].Int[row])
			replicate := int(hidden[1].Int[row])
			if replicate == plan.ExactReplicate {
				if whole := value(plan.WholeAgg, state); whole > 0 {
					places.SetWhole(place, whole, value(plan.SlowAgg, state), value(plan.FastAgg, state))
				}
			} else {
				places.AddSeen(place, replicate, value(plan.SeenAgg, state), value(plan.CensoredAgg, state))
			}
			if a.byPlace || value(0, state) > 0 {
				g := &groups[a.groups[row]]
				m := approx.Member{State: state, Place: place, Replicate: replicate}
				for i := range values {
					m.Values = append(m.Values, b.Cols[own+i].Value(row))
				}
				g.Members = append(g.Members, m)
			}
		}
	}
	return table, groups, nil
}

// appendEstimate appends the columns of the estimate of aggregate i.
func (a *Aggregate) appendEstimate(cols []batch.Column, row int, g *approx.Group, i int, acc fold.Accumulator, events fold.Moments, elapsed int64) error {
	f := &a.node.Aggs[i]
	appendSeen(cols, row, g, events)
	switch acc := acc.(type) {
	case fold.Buckets:
		appendLists(cols, row, g.Buckets(acc))
		return nil
	case fold.Timed:
		return appendSeenValue(cols, row, g, f.Fn == "last", acc)
	case fold.Moments:
		switch {
		case f.Distinct:
			return appendResult(cols, row, g.Distinct(a.values[i], acc))
		case f.Fn == "topk":
			appendLists(cols, row, g.Top(a.values[i], int(f.Params[0].I), acc))
			return nil
		}
	}
	return appendResult(cols, row, g.Aggregate(f, acc, elapsed))
}

// appendSeen appends whether a group is exact, and which share of it was seen, NULL if that is not
// known.
func appendSeen(cols []batch.Column, row int, g *approx.Group, events fold.Moments) {
	cols[plan.EstimateExact].Bool = append(cols[plan.EstimateExact].Bool, g.Exact())
	v := types.Float(g.Share(events))
	if math.IsNaN(v.F) {
		v = types.NullOf(types.Double)
	}
	cols[plan.EstimateShare].Append(row, v)
}

// appendResult appends an estimate and its bounds.
func appendResult(cols []batch.Column, row int, r approx.Result) error {
	for i, v := range []float64{r.Estimate, r.Low, r.High} {
		c := &cols[i]
		if r.Null || math.IsInf(v, 0) || i > 0 && math.IsNaN(v) {
			c.Append(row, types.NullOf(c.Type))
			continue
		}
		if err := appendRounded(c, v); err != nil {
			return err
		}
	}
	return nil
}

// appendSeenValue appends the value of the earliest or the latest call that was seen. Unless
// all were seen it has no bounds.
func appendSeenValue(cols []batch.Column, row int, g *approx.Group, last bool, acc fold.Timed) error {
	state, found := g.Edge(acc, last)
	one := batch.Column{Type: cols[plan.EstimateValue].Type}
	if found {
		if err := acc.Output([]uint32{state}, &one, fold.Instant{}); err != nil {
			return err
		}
	}
	for i := range plan.EstimateHigh + 1 {
		c := &cols[i]
		if !found || i != plan.EstimateValue && !g.Exact() {
			c.Append(row, types.NullOf(c.Type))
			continue
		}
		c.Append(row, one.Value(0))
	}
	return nil
}

// appendLists appends estimated counts of values, as a list, and two with their bounds.
func appendLists(cols []batch.Column, row int, counts []approx.Counts) {
	for i := range plan.EstimateHigh + 1 {
		c := &cols[i]
		if len(counts) == 0 {
			c.Append(row, types.NullOf(c.Type))
			continue
		}
		list := make([]types.Value, len(counts))
		for k, b := range counts {
			n := types.NullOf(types.Bigint)
			if v := [...]float64{b.Count.Estimate, b.Count.Low, b.Count.High}[i]; !math.IsInf(v, 0) {
				n = types.Int(int64(math.Round(v)))
			}
			list[k] = types.ListOf(append(slices.Clone(b.Of), n))
		}
		c.Any = append(c.Any, list)
	}
}

// Precision says how well the results of an aggregate with estimates are known.
type Precision struct {
	Groups, Known int // groups, and those of them that are known well enough
	Unseen        int // places that were looked at too rarely to say whether they have a group
	Within        float64
	Confidence    float64
}

// Enough reports whether all is known well enough.
func (p Precision) Enough() bool { return p.Groups > 0 && p.Known == p.Groups && p.Unseen == 0 }

// Add adds that of another aggregate of the query.
func (p *Precision) Add(o Precision) {
	p.Groups, p.Known, p.Unseen = p.Groups+o.Groups, p.Known+o.Known, p.Unseen+o.Unseen
	p.Within, p.Confidence = o.Within, o.Confidence
}

// String says what is asked for.
func (p Precision) String() string {
	return fmt.Sprintf("known within %.4g %% at confidence %.4g %%", 100*p.Within, 100*p.Confidence)
}

// HasPrecision reports whether the query ends when the results are known well enough.
func (a *Aggregate) HasPrecision() bool { return a.node.Precision > 0 }

// Precision returns how well the results are known. A group is known well enough if each of
// its aggregates is.
func (a *Aggregate) Precision() (Precision, error) {
	p := Precision{Within: a.node.Precision, Confidence: a.node.Confidence}
	_, groups, err := a.regroup(a.all)
	if err != nil {
		return p, err
	}
	events, elapsed := a.hidden(a.all, 0), max(a.now()-a.Start, 1)
	for g := range groups {
		if groups[g].Events(events) == 0 {
			continue
		}
		p.Groups++
		if groups[g].Exact() {
			p.Known++
			continue
		}
		known := true
		for i := range a.node.Aggs {
			r := groups[g].Aggregate(&a.node.Aggs[i], a.all.accs[i], elapsed)
			known = known && !r.Null && r.Within(p.Within)
		}
		for _, x := range a.node.Derived {
			r := groups[g].Derived(x, a.node.Aggs, a.all.accs, elapsed)
			known = known && !r.Null && r.Within(p.Within)
		}
		if known {
			p.Known++
		}
	}
	if len(groups) > 0 {
		p.Unseen = groups[0].Places.Unseen()
	}
	return p, nil
}

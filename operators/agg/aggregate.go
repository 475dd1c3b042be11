package agg

import (
	"context"
	"fmt"
	"slices"

	"endoscope/operators"
	"endoscope/operators/agg/encode"
	"endoscope/operators/agg/fold"
	"endoscope/operators/agg/grouping"
	"endoscope/operators/agg/states"
	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/operators/rowstore"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Aggregate groups rows and folds each group with the aggregate functions. Its
// output is the keys, then the aggregates, with groups in order of first
// appearance.
//
// A batch is processed in three steps, each a loop over its rows: the keys are
// mapped to group numbers (grouping.Table), the arguments are computed (expr), and
// each function folds its argument into arrays indexed by group
// (fold.Accumulator). Nothing is allocated for a row, or for a group beyond the
// arrays' growth.
//
// Groups that a source has folded arrive on another port ([partials]).
type Aggregate struct {
	out     operators.Output
	node    *plan.Aggregate
	keys    []*grouping.Key // the keys of tables: without a window's borders
	aggs    []*aggColumn
	time    int  // the input's column of event time, or -1
	clocked bool // and that is a TIMESTAMP, no line number

	byPlace bool        // with estimates: plan.Partial.ByPlace
	values  map[int]int // and which of the keys behind its own is the argument of an aggregate (plan.Aggregate.Stage)

	stage  bool   // a first stage: it emits states
	origin uint64 // of these

	all     *groupSet // unwindowed
	windows *windowSets

	Start         int64 // when the query was armed, ns since the epoch
	clock         func() int64
	ticked        int64 // the last Tick
	printed       bool  // EMIT EVERY: totals were emitted
	changed       bool  // rows came since
	preview       bool  // the result being emitted is a preview
	maxGroups     int   // of all windows together
	held          int64 // bytes of state that grows with values, not with groups
	samples       sampleRoom
	maxBytes      int64
	encoderBudget int64 // of each encoder, over all groups

	pool    *batch.Pool
	dicts   []*batch.Dict // of string results, by output column
	in      fold.Input    // what accumulators are called with
	dense   []uint16      // scratch: rows that got a group
	without []uint16      // scratch: rows without a group
	groups  [batch.MaxRows]uint32
	ids     [batch.MaxRows]uint32 // scratch: groups being emitted
	words   [batch.MaxRows]uint64 // scratch of accumulators
	stamps  []uint32              // EMIT CHANGES: by group, the batch that changed it last
	stamp   uint32
	changes []changeReporter // scratch
	states  *stateOutput     // emits states instead of results; nil: emits results
	scratch grouping.Scratch
}

// aggColumn is one aggregate function with its arguments.
type aggColumn struct {
	fn     *plan.Agg
	arg    *expr.Program   // nil for COUNT(*) and RATE(*)
	more   []*expr.Program // the other arguments
	filter *expr.Filter    // nil: every row

	col    *batch.Column   // arg of the batch being pushed
	cols   []*batch.Column // as more
	passed batch.Bitmap    // rows of the batch for which filter is true
	rows   []uint16        // scratch
}

// mostGroups bounds the groups even where memory would hold more.
const mostGroups = 16 << 20

func New(n *plan.Aggregate, down operators.Operator, o *operators.Options) (*Aggregate, error) {
	in := n.Input.Schema()
	a := &Aggregate{
		out: operators.Output{To: down}, node: n, time: in.Time,
		Start: o.Start, clock: expr.Clock,
		pool: batch.NewPool(n.Out.Types()), dicts: make([]*batch.Dict, len(n.Out.Fields)),
		maxBytes: o.MemoryLimit, encoderBudget: o.EncoderBudget,
	}
	if o.Clock != nil {
		a.clock = o.Clock
	}
	if a.maxBytes <= 0 {
		a.maxBytes = operators.DefaultMemoryLimit
	}
	// A key or a state takes about three words, in arrays up to twice too large.
	a.maxGroups = int(min(mostGroups, a.maxBytes/int64(48*(1+len(n.Keys)+len(n.Aggs)))))
	kinds := in.Types()
	a.clocked = in.Time >= 0 && kinds[in.Time] == types.Timestamp
	var stageAggs []plan.Agg
	_, stageAggs, a.values = n.Stage()
	for i := range stageAggs {
		c, err := newAggColumn(&stageAggs[i], kinds)
		if err != nil {
			return nil, err
		}
		a.aggs = append(a.aggs, c)
	}
	if n.Confidence > 0 {
		for range plan.HiddenAggs {
			a.aggs = append(a.aggs, &aggColumn{fn: &plan.Agg{Fn: "count", Star: true, T: types.Bigint}})
		}
	}
	if n.States {
		var err error
		if a.states, err = newStateOutput(a, n); err != nil {
			return nil, err
		}
	}
	if n.Windowed {
		return a, a.setUpWindows(kinds)
	}
	for _, e := range n.Keys {
		if err := a.addKey(e, kinds); err != nil {
			return nil, err
		}
	}
	if err := a.addHiddenKeys(kinds); err != nil {
		return nil, err
	}
	var err error
	a.all, err = a.newSet()
	return a, err
}

// addHiddenKeys adds the keys of states by value, place and replicate. Rows have none: each
// event comes in a state.
func (a *Aggregate) addHiddenKeys(in []types.Type) error {
	if a.node.Confidence == 0 {
		return nil
	}
	keys, _, _ := a.node.Stage()
	for _, e := range keys[len(a.node.Keys):] {
		if err := a.addKey(e, in); err != nil {
			return err
		}
	}
	for range plan.HiddenKeys {
		if err := a.addKey(&plan.Const{V: types.Int(0)}, nil); err != nil {
			return err
		}
	}
	return nil
}

func (a *Aggregate) addKey(e plan.Expr, in []types.Type) error {
	if len(a.keys) == grouping.MaxKeys {
		return plan.Errorf(-1, -1, "more than %d GROUP BY expressions", grouping.MaxKeys)
	}
	k, err := grouping.NewKey(e, in)
	a.keys = append(a.keys, k)
	return err
}

func newAggColumn(f *plan.Agg, in []types.Type) (c *aggColumn, err error) {
	c = &aggColumn{fn: f}
	if len(f.Args) > 0 {
		if c.arg, err = expr.Compile(f.Args[0], in); err != nil {
			return nil, err
		}
		c.cols = make([]*batch.Column, len(f.Args)-1)
		for _, x := range f.Args[1:] {
			p, err := expr.Compile(x, in)
			if err != nil {
				return nil, err
			}
			c.more = append(c.more, p)
		}
	}
	if f.Filter != nil {
		c.filter, err = expr.CompileFilter(f.Filter, in)
	}
	return c, err
}

// groupSet is the groups of one window, or of the query.
type groupSet struct {
	start, end int64 // of the window
	length     int64 // of the window; 0 if its start is not in the plan
	table      grouping.Table
	accs       []fold.Accumulator
	lanes      fold.Lanes // of those accs that have theirs there
}

func (a *Aggregate) newSet() (*groupSet, error) {
	s := &groupSet{table: grouping.NewTable(a.keys, &a.scratch)}
	for _, c := range a.aggs {
		var arg types.Type
		if len(c.fn.Args) > 0 {
			arg = c.fn.Args[0].Type()
		}
		var acc fold.Accumulator
		var err error
		if a.stage && states.InOrder(c.fn) {
			acc = states.NewRows(c.fn, a.origin)
		} else if plan.IsEncoder(c.fn.Fn) {
			acc, err = encode.New(c.fn, a.encoderBudget, a.clocked)
		} else {
			acc, err = newAccumulator(c.fn, arg, &s.lanes)
		}
		if err != nil {
			return nil, err
		}
		if v, ok := acc.(interface{ share(*sampleRoom) }); ok {
			v.share(&a.samples)
		}
		s.accs = append(s.accs, acc)
	}
	s.grow()
	return s, nil
}

// grow extends the accumulators to the groups of the table.
func (s *groupSet) grow() {
	n := s.table.Len()
	s.lanes.Grow(n)
	for _, acc := range s.accs {
		acc.Grow(n)
	}
}

func (s *groupSet) reset() {
	s.table.Reset()
	s.lanes.Reset()
	for _, acc := range s.accs {
		acc.Reset()
	}
}

func (a *Aggregate) Push(ctx context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	if a.out.Status != operators.More || b.Len() == 0 {
		return a.out.Status, nil
	}
	if a.node.Confidence > 0 {
		return a.out.Status, fmt.Errorf("%s needs states of its source, not rows", a.node.Describe())
	}
	if err := a.eval(b); err != nil {
		return a.out.Status, err
	}
	if a.windows != nil {
		return a.out.Status, a.pushWindows(ctx, b)
	}
	rows := batch.RowsOf(b)
	if err := a.fold(ctx, a.all, b, rows); err != nil {
		return a.out.Status, err
	}
	return a.out.Status, a.folded(ctx, rows)
}

// folded notes that rows have changed their groups.
func (a *Aggregate) folded(ctx context.Context, rows []uint16) error {
	a.changed = true
	if a.node.Emit.Mode != plan.Changes {
		return nil
	}
	return a.emit(ctx, a.all, a.changedGroups(a.all, a.changedBy(rows)), a.now())
}

// eval computes keys, arguments and filters for the rows of b that count.
func (a *Aggregate) eval(b *batch.Batch) (err error) {
	for _, k := range a.keys {
		if err := k.Eval(b); err != nil {
			return err
		}
	}
	for _, c := range a.aggs {
		if c.arg != nil {
			if c.col, err = c.arg.Eval(b); err != nil {
				return err
			}
		}
		for i, x := range c.more {
			if c.cols[i], err = x.Eval(b); err != nil {
				return err
			}
		}
		if c.filter == nil {
			continue
		}
		if c.rows, err = c.filter.Select(b, c.rows[:0]); err != nil {
			return err
		}
		clear(c.passed)
		for _, r := range c.rows {
			c.passed.Set(int(r))
		}
	}
	return nil
}

// fold adds rows of the batch that was evaluated to the groups of s.
func (a *Aggregate) fold(ctx context.Context, s *groupSet, b *batch.Batch, rows []uint16) error {
	rows, refused := a.place(s, rows)
	if err := a.lost(ctx, groupsFull, uint64(len(refused))); err != nil {
		return err
	}
	in := &a.in
	*in = fold.Input{Groups: a.groups[:], Alone: len(a.keys) == 0, Words: a.words[:]}
	if a.time >= 0 {
		in.Times = b.Cols[a.time].Int
	}
	for i, c := range a.aggs {
		in.Rows, in.Arg, in.More = c.counted(rows), c.col, c.cols
		if len(in.Rows) == 0 {
			continue
		}
		acc := s.accs[i]
		if v, ok := acc.(valueHolder); ok {
			a.held -= v.Bytes()
			acc.Update(in)
			a.held += v.Bytes()
			if e, ok := acc.(*encode.Encoding); ok {
				if err := a.lost(ctx, encode.EncoderFull, e.ResetRefused()); err != nil {
					return err
				}
			}
			continue
		}
		acc.Update(in)
	}
	return a.fits()
}

// groupsFull is the loss of rows that would need more groups than fit in memory.
const groupsFull = "groups full"

// place finds or creates the groups in s of rows, whose keys were evaluated. It
// returns the rows that have a group, and the rows that would exceed the limit of
// groups; both are valid until the next call.
func (a *Aggregate) place(s *groupSet, rows []uint16) (placed, refused []uint16) {
	before := s.table.Len()
	room := a.maxGroups - a.groupCount() + before
	if s.table.Assign(rows, a.groups[:], room) > 0 {
		rows, refused = a.withGroup(rows)
	}
	s.grow()
	if a.windows != nil {
		a.windows.groups += s.table.Len() - before
	}
	return rows, refused
}

// lost reports n rows that are in no result.
func (a *Aggregate) lost(ctx context.Context, cause string, n uint64) error {
	if n == 0 {
		return nil
	}
	_, err := a.out.Signal(ctx, operators.Signal{Kind: operators.Gap, Cause: cause, N: n})
	return err
}

// fits returns an error if the values that are held exceed the limit.
func (a *Aggregate) fits() error {
	if a.held > a.maxBytes {
		return rowstore.TooLarge("the values of the aggregates", a.maxBytes, "group by less, or use shorter windows")
	}
	return nil
}

// valueHolder is an accumulator whose state grows with the values it receives.
type valueHolder interface{ Bytes() int64 }

func (a *Aggregate) groupCount() int {
	if a.windows != nil {
		return a.windows.groups
	}
	return a.all.table.Len()
}

// withGroup separates the rows with a group from those without.
func (a *Aggregate) withGroup(rows []uint16) (with, without []uint16) {
	a.dense, a.without = a.dense[:0], a.without[:0]
	for _, r := range rows {
		if a.groups[r] != grouping.NoGroup {
			a.dense = append(a.dense, r)
		} else {
			a.without = append(a.without, r)
		}
	}
	return a.dense, a.without
}

// counted returns rows without those that the aggregate ignores.
func (c *aggColumn) counted(rows []uint16) []uint16 {
	nulls := c.arg != nil && len(c.col.Nulls) > 0 && c.col.Nulls.Any()
	if !nulls && c.filter == nil {
		return rows
	}
	kept := c.rows[:0]
	for _, r := range rows {
		if nulls && c.col.Nulls.Get(int(r)) || c.filter != nil && !c.passed.Get(int(r)) {
			continue
		}
		kept = append(kept, r)
	}
	c.rows = kept
	return kept
}

// changedBy returns the groups of rows, each once.
func (a *Aggregate) changedBy(rows []uint16) []uint32 {
	a.stamps = rowstore.Extended(a.stamps, a.all.table.Len())
	a.stamp++
	n := 0
	for _, r := range rows {
		g := a.groups[r]
		if g == grouping.NoGroup || a.stamps[g] == a.stamp {
			continue
		}
		a.stamps[g] = a.stamp
		a.ids[n] = g
		n++
	}
	return a.ids[:n]
}

// changeReporter is an accumulator that reports whether its result for a group has
// changed since the last output.
type changeReporter interface{ Changed(group uint32) bool }

// changedGroups returns groups without those whose results all equal the last output.
func (a *Aggregate) changedGroups(s *groupSet, groups []uint32) []uint32 {
	reporters := a.changes[:0]
	for _, acc := range s.accs {
		t, ok := acc.(changeReporter)
		if !ok {
			return groups
		}
		reporters = append(reporters, t)
	}
	a.changes = reporters
	return slices.DeleteFunc(groups, func(g uint32) bool {
		return len(reporters) > 0 && !slices.ContainsFunc(reporters, func(t changeReporter) bool { return t.Changed(g) })
	})
}

func (a *Aggregate) Signal(ctx context.Context, _ int, s operators.Signal) (operators.Status, error) {
	if a.out.Status != operators.More {
		return a.out.Signal(ctx, s)
	}
	var err error
	switch s.Kind {
	case operators.Flush: // of the input; the results of this operator have their own
		return a.out.Status, nil
	case operators.Watermark:
		if a.windows != nil {
			err = a.closeWindows(ctx, s.Time)
		}
	case operators.Tick:
		a.ticked = max(a.ticked, s.Time)
		if a.windows == nil && (s.Preview && a.node.Emit.Mode != plan.Changes || !s.Preview && a.node.Emit.Mode == plan.Every) {
			err = a.emitTotals(ctx, operators.Signal{Kind: operators.Flush, Time: s.Time, Preview: s.Preview}, s.Time)
		}
	}
	if err != nil {
		return a.out.Status, err
	}
	return a.out.Signal(ctx, s)
}

// now returns the time for RATE: that of the clock, or of a later Tick.
func (a *Aggregate) now() int64 { return max(a.clock(), a.ticked) }

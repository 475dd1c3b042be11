package operators

import (
	"context"
	"errors"
	"slices"

	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// aggregate groups rows and folds each group with the aggregate functions. Its
// output is the keys, then the aggregates, groups in order of first appearance.
//
// A batch is worked off in three steps, each a loop over its rows: the keys
// become group numbers (groupTable), the arguments are computed (expr), and
// each function folds its argument into arrays indexed by group (accumulator).
// Nothing is allocated for a row, or for a group beyond the arrays' growth.
//
// What a source has folded itself comes on another port ([partials]).
type aggregate struct {
	out     output
	node    *plan.Aggregate
	keys    []*groupKey // what tables group by: without a window's borders
	aggs    []*aggColumn
	time    int  // the input's column of event time, or -1
	clocked bool // and that is a TIMESTAMP, no line number

	stage  bool   // a first stage: it gives states
	origin uint64 // of these

	all     *groupSet // unwindowed
	windows *windowSets

	start         int64 // when the query was armed, ns since the epoch
	clock         func() int64
	ticked        int64 // the last Tick
	printed       bool  // EMIT EVERY: totals have been given
	changed       bool  // rows came since
	preview       bool  // what is being given is a preview
	maxGroups     int   // of all windows together
	held          int64 // bytes of state that grows with values, not with groups
	maxBytes      int64
	encoderBudget int64 // of each encoder, over all groups

	pool    *batch.Pool
	dicts   []*batch.Dict // of string results, by output column
	in      folding       // what accumulators are called with
	dense   []uint16      // scratch: rows that got a group
	without []uint16      // scratch: rows that got none
	groups  [batch.MaxRows]uint32
	ids     [batch.MaxRows]uint32 // scratch: groups being given
	words   [batch.MaxRows]uint64 // scratch of accumulators
	stamps  []uint32              // EMIT CHANGES: by group, the batch that changed it last
	stamp   uint32
	tellers []newsTeller // scratch
	states  *stateOutput // gives states instead of results; nil: results are wanted
	scratch keyScratch
}

// aggColumn is one aggregate function with what it is fed with.
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

func newAggregate(n *plan.Aggregate, down Operator, o *Options) (*aggregate, error) {
	in := n.Input.Schema()
	a := &aggregate{
		out: output{op: down}, node: n, time: in.Time,
		start: o.Start, clock: expr.Clock,
		pool: batch.NewPool(n.Out.Types()), dicts: make([]*batch.Dict, len(n.Out.Fields)),
		maxBytes: o.MemoryLimit, encoderBudget: o.EncoderBudget,
	}
	if o.Clock != nil {
		a.clock = o.Clock
	}
	if a.maxBytes <= 0 {
		a.maxBytes = DefaultMemoryLimit
	}
	// A key or a state is about three words, in arrays up to twice too large.
	a.maxGroups = int(min(mostGroups, a.maxBytes/int64(48*(1+len(n.Keys)+len(n.Aggs)))))
	kinds := in.Types()
	a.clocked = in.Time >= 0 && kinds[in.Time] == types.Timestamp
	for i := range n.Aggs {
		c, err := newAggColumn(&n.Aggs[i], kinds)
		if err != nil {
			return nil, err
		}
		a.aggs = append(a.aggs, c)
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
	var err error
	a.all, err = a.newSet()
	return a, err
}

func (a *aggregate) addKey(e plan.Expr, in []types.Type) error {
	if len(a.keys) == maxKeys {
		return plan.Errorf(-1, -1, "more than %d GROUP BY expressions", maxKeys)
	}
	k, err := newGroupKey(e, in)
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
	length     int64 // of the window, 0 if the plan does not say where it starts
	table      groupTable
	accs       []accumulator
	lanes      lanes // of those accs that have theirs there
}

func (a *aggregate) newSet() (*groupSet, error) {
	s := &groupSet{table: newGroupTable(a.keys, &a.scratch)}
	for _, c := range a.aggs {
		var arg types.Type
		if len(c.fn.Args) > 0 {
			arg = c.fn.Args[0].Type()
		}
		var acc accumulator
		var err error
		if a.stage && foldsInOrder(c.fn) {
			acc = newRowStates(c.fn, a.origin)
		} else if plan.IsEncoder(c.fn.Fn) {
			acc, err = newEncoding(c.fn, a.encoderBudget, a.clocked)
		} else {
			acc, err = newAccumulator(c.fn, arg, &s.lanes)
		}
		if err != nil {
			return nil, err
		}
		s.accs = append(s.accs, acc)
	}
	s.grow()
	return s, nil
}

// grow makes room in the accumulators for the groups of the table.
func (s *groupSet) grow() {
	n := s.table.len()
	s.lanes.grow(n)
	for _, acc := range s.accs {
		acc.grow(n)
	}
}

func (s *groupSet) reset() {
	s.table.reset()
	s.lanes.reset()
	for _, acc := range s.accs {
		acc.reset()
	}
}

func (a *aggregate) Push(ctx context.Context, _ int, b *batch.Batch) (Status, error) {
	if a.out.status != More || b.Len() == 0 {
		return a.out.status, nil
	}
	if err := a.eval(b); err != nil {
		return a.out.status, err
	}
	if a.windows != nil {
		return a.out.status, a.pushWindows(ctx, b)
	}
	rows := rowsOf(b)
	if err := a.fold(ctx, a.all, b, rows); err != nil {
		return a.out.status, err
	}
	return a.out.status, a.folded(ctx, rows)
}

// folded notes that rows have changed their groups.
func (a *aggregate) folded(ctx context.Context, rows []uint16) error {
	a.changed = true
	if a.node.Emit.Mode != plan.Changes {
		return nil
	}
	return a.give(ctx, a.all, a.news(a.all, a.changedBy(rows)), a.now())
}

// eval computes keys, arguments and filters for the rows of b that count.
func (a *aggregate) eval(b *batch.Batch) (err error) {
	for _, k := range a.keys {
		if err := k.eval(b); err != nil {
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
func (a *aggregate) fold(ctx context.Context, s *groupSet, b *batch.Batch, rows []uint16) error {
	rows, refused := a.place(s, rows)
	if err := a.lost(ctx, groupsFull, uint64(len(refused))); err != nil {
		return err
	}
	in := &a.in
	*in = folding{groups: a.groups[:], alone: len(a.keys) == 0, words: a.words[:]}
	if a.time >= 0 {
		in.times = b.Cols[a.time].Int
	}
	for i, c := range a.aggs {
		in.rows, in.arg, in.more = c.counted(rows), c.col, c.cols
		if len(in.rows) == 0 {
			continue
		}
		acc := s.accs[i]
		if v, ok := acc.(valueHolder); ok {
			a.held -= v.bytes()
			acc.update(in)
			a.held += v.bytes()
			if e, ok := acc.(*encoding); ok {
				if err := a.lost(ctx, encoderFull, e.takeRefused()); err != nil {
					return err
				}
			}
			continue
		}
		acc.update(in)
	}
	return a.fits()
}

// groupsFull is the loss of what would need more groups than memory holds.
const groupsFull = "groups full"

// place finds the groups in s of rows, whose keys were evaluated, and makes
// those that are missing. It returns the rows that have one and those that
// would have been one too many; both are valid until the next call.
func (a *aggregate) place(s *groupSet, rows []uint16) (placed, refused []uint16) {
	before := s.table.len()
	room := a.maxGroups - a.groupCount() + before
	if s.table.assign(rows, a.groups[:], room) > 0 {
		rows, refused = a.withGroup(rows)
	}
	s.grow()
	if a.windows != nil {
		a.windows.groups += s.table.len() - before
	}
	return rows, refused
}

// lost reports n rows that are in no result.
func (a *aggregate) lost(ctx context.Context, cause string, n uint64) error {
	if n == 0 {
		return nil
	}
	_, err := a.out.signal(ctx, Signal{Kind: Gap, Cause: cause, N: n})
	return err
}

// fits is an error if the values that are held have become too many.
func (a *aggregate) fits() error {
	if a.held > a.maxBytes {
		return tooLarge("the values of the aggregates", a.maxBytes, "group by less, or use shorter windows")
	}
	return nil
}

// valueHolder is an accumulator whose state grows with the values it sees.
type valueHolder interface{ bytes() int64 }

func (a *aggregate) groupCount() int {
	if a.windows != nil {
		return a.windows.groups
	}
	return a.all.table.len()
}

// withGroup tells the rows that got a group from those that got none.
func (a *aggregate) withGroup(rows []uint16) (with, without []uint16) {
	a.dense, a.without = a.dense[:0], a.without[:0]
	for _, r := range rows {
		if a.groups[r] != noGroup {
			a.dense = append(a.dense, r)
		} else {
			a.without = append(a.without, r)
		}
	}
	return a.dense, a.without
}

// counted is rows without those that the aggregate ignores.
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

// changedBy are the groups of rows, each once.
func (a *aggregate) changedBy(rows []uint16) []uint32 {
	a.stamps = extended(a.stamps, a.all.table.len())
	a.stamp++
	n := 0
	for _, r := range rows {
		g := a.groups[r]
		if g == noGroup || a.stamps[g] == a.stamp {
			continue
		}
		a.stamps[g] = a.stamp
		a.ids[n] = g
		n++
	}
	return a.ids[:n]
}

// newsTeller is an accumulator that knows whether its result for a group has
// changed since it was given.
type newsTeller interface{ news(group uint32) bool }

// news leaves out the groups of which all results are as they were given last.
func (a *aggregate) news(s *groupSet, groups []uint32) []uint32 {
	tellers := a.tellers[:0]
	for _, acc := range s.accs {
		t, ok := acc.(newsTeller)
		if !ok {
			return groups
		}
		tellers = append(tellers, t)
	}
	a.tellers = tellers
	return slices.DeleteFunc(groups, func(g uint32) bool {
		return len(tellers) > 0 && !slices.ContainsFunc(tellers, func(t newsTeller) bool { return t.news(g) })
	})
}

func (a *aggregate) Signal(ctx context.Context, _ int, s Signal) (Status, error) {
	if a.out.status != More {
		return a.out.signal(ctx, s)
	}
	var err error
	switch s.Kind {
	case Flush: // of what is below; the results here have their own
		return a.out.status, nil
	case Watermark:
		if a.windows != nil {
			err = a.closeWindows(ctx, s.Time)
		}
	case Tick:
		a.ticked = max(a.ticked, s.Time)
		if a.windows == nil && (s.Preview && a.node.Emit.Mode != plan.Changes || !s.Preview && a.node.Emit.Mode == plan.Every) {
			err = a.giveTotals(ctx, Signal{Kind: Flush, Time: s.Time, Preview: s.Preview}, s.Time)
		}
	}
	if err != nil {
		return a.out.status, err
	}
	return a.out.signal(ctx, s)
}

// now is the time for RATE where no Tick tells it.
func (a *aggregate) now() int64 { return max(a.clock(), a.ticked) }

// giveTotals gives every group, then flush.
func (a *aggregate) giveTotals(ctx context.Context, flush Signal, now int64) error {
	a.preview = flush.Preview
	err := a.giveAll(ctx, a.all, now)
	a.preview = false
	var unfit *plan.Error
	if err != nil && !(flush.Preview && errors.As(err, &unfit)) {
		return err
	}
	// A total that does not fit its type now may fit in the end: the preview is
	// cut short, and the query goes on.
	if !flush.Preview {
		a.printed, a.changed = true, false
	}
	_, err = a.out.signal(ctx, flush)
	return err
}

func (a *aggregate) Close(ctx context.Context, _ int) error {
	if err := a.finish(ctx); err != nil {
		return err
	}
	return a.out.close(ctx)
}

// finish gives what is still to be given.
func (a *aggregate) finish(ctx context.Context) error {
	switch {
	case a.out.status != More:
		return nil
	case a.windows != nil:
		return a.closeAllWindows(ctx)
	case a.node.Emit.Mode == plan.Changes:
		return nil
	case a.node.Emit.Mode == plan.Every && a.printed && !a.changed:
		return nil
	}
	now := a.now()
	return a.giveTotals(ctx, Signal{Kind: Flush, Time: now}, now)
}

// giveAll pushes all groups of s.
func (a *aggregate) giveAll(ctx context.Context, s *groupSet, now int64) error {
	if a.states != nil {
		return a.states.pushAll(ctx, s)
	}
	for from := 0; from < s.table.len(); from += batch.MaxRows {
		n := min(s.table.len()-from, batch.MaxRows)
		for i := range n {
			a.ids[i] = uint32(from + i)
		}
		if err := a.give(ctx, s, a.ids[:n], now); err != nil {
			return err
		}
	}
	return nil
}

// give pushes at most a batch of groups.
func (a *aggregate) give(ctx context.Context, s *groupSet, groups []uint32, now int64) error {
	if len(groups) == 0 || a.out.status != More {
		return nil
	}
	if a.states != nil {
		return a.states.pushChanged(ctx, s, groups, now)
	}
	b := a.pool.Get()
	defer b.Release()
	b.N = len(groups)
	a.giveKeys(s, groups, b.Cols[:len(a.node.Keys)])
	at := instant{elapsed: now - a.start, preview: a.preview}
	if a.windows != nil {
		at.elapsed = s.length
	}
	for i, acc := range s.accs {
		c := &b.Cols[len(a.node.Keys)+i]
		a.newDict(len(a.node.Keys)+i, c)
		if err := acc.output(groups, c, at); err != nil {
			return err
		}
	}
	_, err := a.out.push(ctx, b)
	return err
}

func (a *aggregate) giveKeys(s *groupSet, groups []uint32, cols []batch.Column) {
	k := 0
	for i := range cols {
		switch {
		case a.windows != nil && i == a.windows.startKey:
			appendSame(&cols[i], s.start, len(groups))
		case a.windows != nil && i == a.windows.endKey:
			appendSame(&cols[i], s.end, len(groups))
		default:
			s.table.output(k, groups, &cols[i])
			k++
		}
	}
}

func appendSame(c *batch.Column, v int64, n int) {
	for range n {
		c.Int = append(c.Int, v)
	}
}

// newDict gives a column of string results a dictionary, a new one when the
// old one has grown: results of closed windows are not needed again.
func (a *aggregate) newDict(i int, c *batch.Column) {
	if c.Type.Physical() != types.PhysCode {
		return
	}
	if a.dicts[i] == nil || a.dicts[i].Len() > maxDict {
		a.dicts[i] = batch.NewDict()
	}
	c.Dict = a.dicts[i]
}

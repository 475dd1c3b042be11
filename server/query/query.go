package query

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"endoscope/operators"
	"endoscope/operators/graph"
	"endoscope/planner"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/clock"
	"endoscope/server/answer"
	"endoscope/server/flow"
	"endoscope/server/gating"
	"endoscope/server/grant"
	"endoscope/server/placement"
	"endoscope/server/sharing"
	"endoscope/server/wire"
)

// Query is one execution of a plan.
type Query struct {
	ID        int64
	Text      string
	Plan      *plan.Query
	Feeds     []*flow.Feed
	Graph     *graph.Graph
	Leaves    []graph.Leaf // Leaves[i] is the leaf that Feeds[i] feeds
	collector *collector   // nil until the query is started
	queue     *flow.Queue
	Tally     *flow.Tally
	out       *flow.Outlet
	Last      operators.Operator // consumer of the rows; nil: out
	Life      lifecycle
	started   time.Time // set before the query runs
	began     int64     // started by the clock of events, ns since the epoch
	until     int64     // when the query began to end, by that clock; 0: it has not

	Live           time.Duration // interval of previews; 0: no previews
	Marks          bool          // wire.Options.Marks
	Unread         int64         // limit of result bytes that the client has not read; 0: the query waits for its client
	JoinMemory     int64         // bytes
	EncoderBudget  int64         // bytes
	MemoryLimit    int64         // bytes of rows that one operator may hold; 0: the default
	stop           chan struct{} // closed to end the query with its result so far
	stopOnce       sync.Once
	ctx            context.Context    // the runner's context
	Cancel         context.CancelFunc // abandons the query; set by Prepare, since other goroutines may call it
	Done           chan struct{}      // closed when nothing is attached any more, or the query could not be started
	Release        func()             // lets a held command run, once the query is armed
	Grant          *grant.Grant       // of the user who runs the query
	Timeout        Timeout
	expired        atomic.Bool          // the timeout has ended it
	discharge      func()               // returns the resources charged to the user's account; nil: nothing was charged
	leaving        sync.Mutex           // held while the query is removed from the engine's list
	Gating         *gating.Gating       // of the query's window joins; nil: there is none
	reports        sync.Mutex           // held while the query starts to run, and while SUSPEND or RESUME is reported
	PendingSignals []operators.Signal   // SUSPEND and RESUME signals that arrived before the query ran
	ticks          uint64               // CPU time of the target when the query was started
	before         []time.Duration      // what the feeds' sources had cost when the query was started
	known          bool                 // all results were known as well as ERROR WITHIN asks, and the query ended
	Placement      *placement.Placement // the part that the client executes; nil: none
}

// Environment is what Prepare needs from the engine.
type Environment struct {
	Providers map[string]probes.Provider // by stream
	Shares    *sharing.Shares
	Batches   int // capacity of a query's queue, in batches
}

// finiteBatches is the capacity of the queue of a query without live sources, in batches.
const finiteBatches = 32

// Prepare resolves every acquisition of a plan. It attaches nothing.
func Prepare(ctx context.Context, text string, p *plan.Query, e Environment) (*Query, error) {
	q := &Query{Text: text, Plan: p, queue: flow.NewQueue(e.Batches), Tally: flow.NewTally(),
		stop: make(chan struct{}), Done: make(chan struct{})}
	q.ctx, q.Cancel = context.WithCancel(context.WithoutCancel(ctx))
	for _, leaf := range plan.Leaves(p.Root) {
		provider := e.Providers[leaf.Stream]
		if provider == nil {
			q.Abandon()
			return nil, planner.Placed(plan.Errorf(leaf.Start, leaf.Stop, "%s is not supported yet", leaf.Stream), text)
		}
		src, err := provider.Prepare(ctx, leaf)
		if err != nil {
			q.Abandon()
			return nil, planner.Placed(err, text)
		}
		f := flow.NewFeed(len(q.Feeds), leaf, src, q.queue, q.Tally)
		q.Feeds = append(q.Feeds, f)
		if leaf.OnDemand && !f.Info.OnDemand {
			q.Abandon()
			return nil, planner.Placed(plan.Errorf(leaf.Start, leaf.Stop, "the value of %s cannot be acquired on demand yet", leaf.Stream), text)
		}
		if p := e.Shares.Offer(src, &f.OwnInfo, leaf, func() int64 { return q.ID }); p != nil {
			f.Share(p)
		}
	}
	if !slices.ContainsFunc(q.Feeds, func(f *flow.Feed) bool { return f.Live }) {
		q.queue.Limit = min(q.queue.Limit, finiteBatches) // sources that wait need no more
	}
	q.settle()
	var err error
	if q.Gating, err = gating.New(q.Feeds, q.Plan.Root, text, func() bool { return q.Life.May(StepAttach) }); err != nil {
		q.Abandon()
		return nil, err
	}
	return q, nil
}

// feedOf returns the feed of an acquisition.
func (q *Query) feedOf(a *plan.Acquire) *flow.Feed {
	return q.Feeds[slices.IndexFunc(q.Feeds, func(f *flow.Feed) bool { return f.Spec == a })]
}

// residual returns the part of an acquisition's filter that its source does not
// test.
func (q *Query) residual(a *plan.Acquire) plan.Expr {
	for _, f := range q.Feeds {
		if f.Spec == a {
			return f.Info.Residual
		}
	}
	return a.Filter
}

// Divide divides a prepared query between the engine and the client at the end
// of a path, as SET placement and steer specify.
func (q *Query) Divide(path wire.Path, how string, steer func(uint64) int) (err error) {
	q.Placement, err = placement.New(placement.Query{Root: q.Plan.Root, Residual: q.residual, Live: q.Live, Text: q.Text}, path, how, steer)
	return err
}

// Notices returns the notices of the planner and the sources, each text once.
func (q *Query) Notices() []string {
	out := slices.Clone(q.Plan.Notices)
	for _, f := range q.Feeds {
		out = append(out, f.Source.Info().Notices...)
	}
	return answer.Distinct(append(out, q.Gating.Notices()...))
}

// Refusal returns the error with which a source will refuse to be armed because
// of its cost, or nil.
func (q *Query) Refusal() error {
	for _, f := range q.Feeds {
		if f.OwnInfo.Refusal == nil {
			continue
		}
		if err := f.Source.Info().Refusal; err != nil { // asked again, since it may depend on queries started since Prepare
			return err
		}
	}
	return nil
}

// Start builds the operators, arms the sources and starts the runner. If a
// source cannot be armed, those already armed are disarmed, and the others
// release what they loaded.
func (q *Query) Start() (err error) {
	defer func() {
		if err != nil {
			q.Abandon()
		}
	}()
	if err := q.Life.check(stepStart); err != nil {
		return err
	}
	if err := cmp.Or(q.checkTimeout(), q.Refusal()); err != nil { // before any source is armed
		return planner.Placed(err, q.Text)
	}
	q.out = flow.NewOutlet(q.Tally, q.Unread)
	q.out.Marks, q.out.Timed, q.out.Whole = q.Marks, timed(q.Plan.Root), sendsStates(q.Plan.Root)
	q.out.Live.Store(slices.ContainsFunc(q.Feeds, func(f *flow.Feed) bool { return f.Live }))
	last, root := q.Last, q.Plan.Root
	if last == nil {
		last = q.out
	}
	if q.Placement != nil {
		last, root = q.Placement, q.Placement.Base
		q.Placement.Out, q.Placement.Now = q.out, q.now
	}
	built, err := graph.Build(root, last, &operators.Options{
		Clock:       q.now,
		Stats:       true,
		MemoryLimit: q.MemoryLimit, JoinMemory: q.JoinMemory, EncoderBudget: q.EncoderBudget,
		Demand: func(a *plan.Acquire) func(context.Context) error { return q.feedOf(a).OnDemand() },
		Tap:    q.Gating.Tap,
		Residual: func(a *plan.Acquire) plan.Expr {
			if p := q.Placement; p != nil && p.Tested && a == p.Base {
				return nil
			}
			return q.residual(a)
		},
	})
	if err != nil {
		return planner.Placed(err, q.Text)
	}
	q.Graph = built
	defer func() {
		if err != nil {
			_ = built.Abandon()
		}
	}()
	for _, f := range q.Feeds {
		i := slices.IndexFunc(built.Leaves, func(l graph.Leaf) bool { return l.Acquire == f.Spec })
		q.Leaves = append(q.Leaves, built.Leaves[i])
	}
	q.collector = newCollector(q.Feeds)
	for _, s := range q.takeSignals() {
		q.pushAll(s)
	}
	q.readBefore()
	// Sources that other sources sample for their values are started first.
	order := slices.Clone(q.Feeds)
	slices.SortStableFunc(order, func(a, b *flow.Feed) int { return cmp.Compare(a.Rank(), b.Rank()) })
	for _, f := range order {
		if q.standsBy(f) {
			continue // already started by StandBy
		}
		f.Options.Ceiling = q.ceiling
		if err := f.Source.Start(q.ctx, f.Sink(q.Leaves), f.Options); err != nil {
			return planner.Placed(err, q.Text)
		}
	}
	q.Gating.Start()
	q.started, q.began = time.Now(), clock.Now()
	built.Armed(q.began)
	q.Placement.Begin(q.started, q.began)
	for _, f := range q.Feeds {
		if !q.standsBy(f) {
			continue
		}
		if err := f.Control(probes.Begin{}); err != nil {
			return planner.Placed(err, q.Text)
		}
	}
	q.reports.Lock()
	for _, s := range q.PendingSignals {
		q.pushAll(s)
	}
	q.Life.move(PhaseRunning)
	q.reports.Unlock()
	q.recordAttached("armed")
	if q.Release != nil {
		q.Release()
	}
	go q.run(q.ctx)
	return nil
}

// sendsStates reports whether the rows of a plan are group states, which the
// root of a query over several hosts merges.
func sendsStates(root plan.Node) bool {
	a, ok := root.(*plan.Aggregate)
	return ok && a.States
}

// standsBy reports whether the source of a feed is started and waits for Begin.
func (q *Query) standsBy(f *flow.Feed) bool {
	return f.Options.Standby && q.Life.Phase() == phaseStandby
}

// now returns the time by which rates are computed. Once the query ends it is
// the time at which it began to end: events in flight then may be delivered
// later.
func (q *Query) now() int64 {
	if p := q.Life.Phase(); p == phaseEnding || p == PhaseDone {
		return q.until
	}
	return clock.Now()
}

// ArmedAt returns the time at which the query was armed; NULL before.
func (q *Query) ArmedAt() types.Value {
	if !q.Life.Started() {
		return types.NullOf(types.Timestamp)
	}
	return types.Time(q.began)
}

// End asks the query to finish and return its result so far.
func (q *Query) End() { q.stopOnce.Do(func() { close(q.stop) }) }

// run drives the operators until every leaf has ended.
func (q *Query) run(ctx context.Context) {
	defer close(q.Done)
	stop := q.watchTimeout()
	err := q.loop(ctx)
	stop()
	q.beginEnd()
	q.queue.Close()
	q.disarm(true).Wait()
	q.collector.asking.Wait()
	q.Gating.End()
	for _, f := range q.Feeds {
		for _, line := range f.Source.Info().Remarks {
			q.Tally.AddNote(line)
		}
	}
	if note := q.precisionNote(); note != "" && err == nil {
		q.Tally.AddNote(note)
	}
	for _, line := range q.Gating.Footnotes() {
		q.Tally.AddNote(line)
	}
	for _, line := range q.Placement.Footnotes() {
		q.Tally.AddNote(line)
	}
	if note := q.whyNothing(); note != "" {
		q.Tally.AddNote(note)
	}
	if note := q.timeoutNote(); note != "" {
		q.Tally.AddNote(note)
	}
	if err != nil {
		_ = q.Graph.Abandon()
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = q.timeoutError()
	}
	q.out.Finish(planner.Placed(err, q.Text), time.Since(q.started))
	q.Cancel()
	q.Life.move(PhaseDone)
}

// disarm stops the sources, each in its own goroutine. A source that is stopped
// still delivers its events in flight, and the runner, which takes them
// meanwhile, may sample the sources that outlive others. Those are therefore
// stopped only if all is set.
func (q *Query) disarm(all bool) *sync.WaitGroup {
	var wg, first sync.WaitGroup
	stop := func(f *flow.Feed) {
		if err := f.Source.Stop(); err != nil {
			f.Tally.AddNoted("detach: "+err.Error(), 1)
		}
	}
	for _, f := range q.Feeds {
		if (f.Asked == nil || all) && !f.Outlives() {
			first.Add(1)
			wg.Go(func() { defer first.Done(); stop(f) })
		}
	}
	for _, f := range q.Feeds {
		if f.Outlives() {
			wg.Go(func() { first.Wait(); stop(f) })
		}
	}
	return &wg
}

var _ probes.Sink = (*flow.Feed)(nil)

// Load loads the sources, which takes long. It attaches nothing.
func (q *Query) Load(ctx context.Context) error {
	if err := q.Life.check(stepLoad); err != nil {
		return err
	}
	if err := q.Gating.Prepare(); err != nil {
		return err
	}
	for _, f := range q.Feeds {
		if err := f.Source.Load(ctx, f.Options); err != nil {
			return planner.Placed(err, q.Text)
		}
	}
	q.Life.move(phaseLoaded)
	return nil
}

// StandBy loads the sources and starts those that can stand by: they are
// attached, and deliver nothing before Start.
func (q *Query) StandBy(ctx context.Context) error {
	for _, f := range q.Feeds {
		f.Options.Standby = f.Info.Standby
	}
	if err := q.Load(ctx); err != nil {
		return err
	}
	if err := q.Life.check(stepStandBy); err != nil {
		return err
	}
	if err := q.Charge(); err != nil {
		return answer.PlacedAt(err, -1, -1, q.Text)
	}
	for _, f := range q.Feeds {
		if !f.Options.Standby {
			continue
		}
		if err := f.Source.Start(q.ctx, f, f.Options); err != nil {
			return planner.Placed(err, q.Text)
		}
	}
	if slices.ContainsFunc(q.Feeds, func(f *flow.Feed) bool { return f.Options.Standby }) {
		q.recordAttached("standing by")
	}
	q.Life.move(phaseStandby)
	return nil
}

// Abandon releases a query that has not run. It does nothing if the query runs,
// has run, or was abandoned before.
func (q *Query) Abandon() {
	if !q.Life.move(PhaseAbandoned) {
		return
	}
	q.queue.Close() // an armed source must not wait for a runner
	for _, f := range q.Feeds {
		_ = f.Source.Stop() // the source's End reports the error
	}
	if q.discharge != nil { // it was charged
		q.discharge()
	}
	q.Gating.End()
	q.Cancel()
	close(q.Done) // Engine.Close waits for abandoned queries, too
}

// Leave removes a query that has ended from the engine's list by calling
// remove, which reports whether the query was listed. The first call for which
// it was returns the query's charges to its user's account; other callers wait
// until that is done.
func (q *Query) Leave(remove func() (listed bool)) {
	q.leaving.Lock()
	defer q.leaving.Unlock()
	if !remove() {
		return
	}
	if q.discharge != nil {
		q.discharge()
	}
	q.recordEnd()
}

// Failure returns the error with which the query ended, once it is done; nil if
// it ended normally.
func (q *Query) Failure() error {
	return q.out.Failure()
}

// SharedWith returns the ids of the other queries that share an acquisition
// with q.
func (q *Query) SharedWith() (ids []int64) {
	for _, f := range q.Feeds {
		if f.Part != nil {
			ids = append(ids, f.Part.Others()...)
		}
	}
	slices.Sort(ids)
	return slices.DeleteFunc(slices.Compact(ids), func(id int64) bool { return id == q.ID })
}

// EndWith ends q when a program has ended.
func (q *Query) EndWith(ended <-chan struct{}) {
	select {
	case <-ended:
		q.End()
	case <-q.Done:
	}
}

// IsAbout reports whether q observes no processes but pid and those that it starts. Then it
// ends by itself, with the last of them.
func (q *Query) IsAbout(pid int) bool {
	found := false
	for _, f := range q.Feeds {
		if f.AboutTarget() {
			if found = slices.Equal(f.Spec.Target.PIDs, []int{pid}); !found {
				return false
			}
		}
	}
	return found
}

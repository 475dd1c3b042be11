package query

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"endoscope/operators"
	"endoscope/operators/graph"
	"endoscope/planner"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/clock"
	"endoscope/probes/process"
	"endoscope/server/answer"
	"endoscope/server/flow"
	"endoscope/server/gating"
	"endoscope/server/grant"
	"endoscope/server/placement"
	"endoscope/server/sharing"
	"endoscope/server/wire"
)

// Query is one running plan.
type Query struct {
	ID        int64
	Text      string
	Plan      *plan.Query
	Feeds     []*flow.Feed
	Graph     *graph.Graph
	Leaves    []graph.Leaf // what each feed feeds
	collector *collector   // set when it is started
	queue     *flow.Queue
	Tally     *flow.Tally
	out       *flow.Outlet
	Last      operators.Operator // takes the rows; nil: out does
	Life      lifecycle
	started   time.Time // set before it runs
	began     int64     // the same by the clock of events, ns since the epoch
	until     int64     // when it began to end, by that clock

	Live           time.Duration // interval of previews; 0: none
	Marks          bool          // wire.Options.Marks
	Unread         int64         // bytes of rows that its client may leave unread; 0: it waits
	JoinMemory     int64         // bytes
	EncoderBudget  int64         // bytes
	stop           chan struct{} // closed: end, and give what there is
	stopOnce       sync.Once
	ctx            context.Context      // of its runner
	Cancel         context.CancelFunc   // abandon; from the beginning, since others may
	Done           chan struct{}        // closed when nothing is attached any more, or it could not be started
	Release        func()               // lets a held command run, once armed
	Grant          *grant.Grant         // of whoever runs it
	discharge      func()               // what it uses is free again; nil: nothing is counted
	leaving        sync.Mutex           // held while it is removed
	Gating         *gating.Gating       // of its joins; nil: it has none
	reports        sync.Mutex           // held while the query starts to run, and while SUSPEND or RESUME is told
	PendingSignals []operators.Signal   // of these, those before it ran
	Placement      *placement.Placement // what its client executes of it; nil: nothing
}

// Environment is what queries are prepared with.
type Environment struct {
	Providers map[string]probes.Provider // by stream
	Shares    *sharing.Shares
	Batches   int // how many a query may be behind its sources
}

// Prepare resolves every acquisition of a plan; nothing is attached yet.
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
	q.settle()
	var err error
	if q.Gating, err = gating.New(q.Feeds, q.Plan.Root, text, func() bool { return q.Life.May(StepAttach) }); err != nil {
		q.Abandon()
		return nil, err
	}
	return q, nil
}

// feedOf is the feed of an acquisition.
func (q *Query) feedOf(a *plan.Acquire) *flow.Feed {
	return q.Feeds[slices.IndexFunc(q.Feeds, func(f *flow.Feed) bool { return f.Spec == a })]
}

// residual is what the source of an acquisition leaves of its filter.
func (q *Query) residual(a *plan.Acquire) plan.Expr {
	for _, f := range q.Feeds {
		if f.Spec == a {
			return f.Info.Residual
		}
	}
	return a.Filter
}

// Divide divides a query that is prepared between the engine and the client at the end of
// a path, as SET placement and steer say.
func (q *Query) Divide(path wire.Path, how string, steer func(uint64) int) (err error) {
	q.Placement, err = placement.New(placement.Query{Root: q.Plan.Root, Residual: q.residual, Live: q.Live, Text: q.Text}, path, how, steer)
	return err
}

// Notices gathers what the planner and the sources have to say. Sources of one
// query may all say the same.
func (q *Query) Notices() []string {
	out := slices.Clone(q.Plan.Notices)
	for _, f := range q.Feeds {
		out = append(out, f.Source.Info().Notices...)
	}
	return answer.Distinct(append(out, q.Gating.Notices()...))
}

// Refusal is why a source will refuse to be armed because of what it costs.
func (q *Query) Refusal() error {
	for _, f := range q.Feeds {
		if f.OwnInfo.Refusal == nil {
			continue
		}
		if err := f.Source.Info().Refusal; err != nil { // now, perhaps with others
			return err
		}
	}
	return nil
}

// Start builds the operators, arms the sources and leaves the runner going.
// If any source cannot be armed, those that were are disarmed again, and the
// others let go of what they have loaded.
func (q *Query) Start() (err error) {
	defer func() {
		if err != nil {
			q.Abandon()
		}
	}()
	if err := q.Life.check(stepStart); err != nil {
		return err
	}
	if err := q.Refusal(); err != nil { // before any source is armed
		return planner.Placed(err, q.Text)
	}
	q.out = flow.NewOutlet(q.Tally, q.Unread)
	q.out.Marks, q.out.Timed, q.out.Whole = q.Marks, timed(q.Plan.Root), sendsStates(q.Plan.Root)
	q.out.Hurried.Store(slices.ContainsFunc(q.Feeds, func(f *flow.Feed) bool { return f.Live }))
	last, root := q.Last, q.Plan.Root
	if last == nil {
		last = q.out
	}
	if q.Placement != nil {
		last, root = q.Placement, q.Placement.Base
		q.Placement.Out, q.Placement.Now = q.out, q.now
	}
	built, err := graph.Build(root, last, &operators.Options{
		Clock:      q.now,
		Stats:      true,
		JoinMemory: q.JoinMemory, EncoderBudget: q.EncoderBudget,
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
	// Values that others will ask for come first.
	order := slices.Clone(q.Feeds)
	slices.SortStableFunc(order, func(a, b *flow.Feed) int { return cmp.Compare(a.Rank(), b.Rank()) })
	for _, f := range order {
		if q.standsBy(f) {
			continue // it is started
		}
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

// sendsStates reports whether the rows of a plan are states of groups, for the root of
// several hosts.
func sendsStates(root plan.Node) bool {
	a, ok := root.(*plan.Aggregate)
	return ok && a.States
}

// standsBy reports whether the source of a feed is started and waits for Begin.
func (q *Query) standsBy(f *flow.Feed) bool {
	return f.Options.Standby && q.Life.Phase() == phaseStandby
}

// now is the time by which rates count: once the query ends, that of its end. What was
// under way then may be given later.
func (q *Query) now() int64 {
	if p := q.Life.Phase(); p == phaseEnding || p == PhaseDone {
		return q.until
	}
	return clock.Now()
}

// ArmedAt is when the query was armed; NULL before.
func (q *Query) ArmedAt() types.Value {
	if !q.Life.Started() {
		return types.NullOf(types.Timestamp)
	}
	return types.Time(q.began)
}

// End asks the query to finish and give what it has.
func (q *Query) End() { q.stopOnce.Do(func() { close(q.stop) }) }

// run drives the operators until every leaf has ended.
func (q *Query) run(ctx context.Context) {
	defer close(q.Done)
	err := q.loop(ctx)
	q.beginEnd()
	q.queue.Close()
	q.disarm(true).Wait()
	q.collector.asking.Wait()
	q.Gating.End()
	for _, line := range q.Gating.Footnotes() {
		q.Tally.AddNote(line)
	}
	for _, line := range q.Placement.Footnotes() {
		q.Tally.AddNote(line)
	}
	if err != nil {
		_ = q.Graph.Abandon()
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil
	}
	q.out.Finish(planner.Placed(err, q.Text), time.Since(q.started))
	q.Cancel()
	q.Life.move(PhaseDone)
}

// disarm stops the sources, each in a goroutine of its own, those that outlive
// others after them: a stopping source still gives what is under way, which the
// runner takes meanwhile, and for which it asks the others for values. Those are
// stopped with all.
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

// Load loads the sources, which takes long, and attaches nothing.
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

// StandBy loads the sources and starts those that can stand by: they are attached, and
// give nothing before start.
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

// Abandon releases a query that has not run. It does nothing to a query that runs, has
// run, or was abandoned before.
func (q *Query) Abandon() {
	if !q.Life.move(PhaseAbandoned) {
		return
	}
	q.queue.Close() // sources that were armed must not wait for a runner
	for _, f := range q.Feeds {
		_ = f.Source.Stop() // its End says why it could not
	}
	if q.discharge != nil { // it is counted
		q.discharge()
	}
	q.Gating.End()
	q.Cancel()
	close(q.Done) // Engine.Close waits for it, too
}

// Leave takes a query that has ended off the engine's list by a function, which reports
// whether the query was on it. The first call that finds it there ends what it counts
// for among what its user uses; the others wait for that.
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

// Failure is why the query ended, once it is done; nil if as it should.
func (q *Query) Failure() error {
	return q.out.Failure()
}

// SharedWith are the other queries that have a part in what q acquires.
func (q *Query) SharedWith() (ids []int64) {
	for _, f := range q.Feeds {
		if f.Part != nil {
			ids = append(ids, f.Part.Others()...)
		}
	}
	slices.Sort(ids)
	return slices.DeleteFunc(slices.Compact(ids), func(id int64) bool { return id == q.ID })
}

// EndWith ends q when a command has ended.
func (q *Query) EndWith(c *process.Command) {
	select {
	case <-c.Wait():
		q.End()
	case <-q.Done:
	}
}

// AboutCommand reports whether what q says of processes is of its session's command alone:
// then it ends by itself, with the last of these.
func (q *Query) AboutCommand() bool {
	found := false
	for _, f := range q.Feeds {
		if f.AboutTarget() {
			if found = f.Spec.Target.Command; !found {
				return false
			}
		}
	}
	return found
}

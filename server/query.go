package server

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
	"endoscope/server/answer"
	"endoscope/server/flow"
	"endoscope/server/gating"
	"endoscope/server/grant"
	"endoscope/server/placement"
	"endoscope/server/sharing"
	"endoscope/server/wire"
)

// query is one running plan.
type query struct {
	id        int64
	text      string
	plan      *plan.Query
	feeds     []*flow.Feed
	graph     *graph.Graph
	leaves    []graph.Leaf // what each feed feeds
	collector *collector   // set when it is started
	q         *flow.Queue
	t         *flow.Tally
	out       *flow.Outlet
	last      operators.Operator // takes the rows; nil: out does
	life      lifecycle
	started   time.Time // set before it runs
	began     int64     // the same by the clock of events, ns since the epoch
	until     int64     // when it began to end, by that clock

	live          time.Duration // interval of previews; 0: none
	marks         bool          // wire.Options.Marks
	unread        int64         // bytes of rows that its client may leave unread; 0: it waits
	joinMemory    int64         // bytes
	encoderBudget int64         // bytes
	stop          chan struct{} // closed: end, and give what there is
	stopOnce      sync.Once
	ctx           context.Context      // of its runner
	cancel        context.CancelFunc   // abandon; from the beginning, since others may
	done          chan struct{}        // closed when nothing is attached any more, or it could not be started
	release       func()               // lets a held command run, once armed
	may           *grant.Grant         // of whoever runs it
	discharge     func()               // what it uses is free again; nil: nothing is counted
	leaving       sync.Mutex           // held while it is removed
	gating        *gating.Gating       // of its joins; nil: it has none
	reports       sync.Mutex           // held while the query starts to run, and while SUSPEND or RESUME is told
	said          []operators.Signal   // of these, those before it ran
	placement     *placement.Placement // what its client executes of it; nil: nothing
}

// environment is what queries are prepared with.
type environment struct {
	providers map[string]probes.Provider // by stream
	shares    *sharing.Shares
	batches   int // how many a query may be behind its sources
}

// prepareQuery resolves every acquisition of a plan; nothing is attached yet.
func prepareQuery(ctx context.Context, text string, p *plan.Query, e environment) (*query, error) {
	q := &query{text: text, plan: p, q: flow.NewQueue(e.batches), t: flow.NewTally(),
		stop: make(chan struct{}), done: make(chan struct{})}
	q.ctx, q.cancel = context.WithCancel(context.WithoutCancel(ctx))
	for _, leaf := range plan.Leaves(p.Root) {
		provider := e.providers[leaf.Stream]
		if provider == nil {
			q.abandon()
			return nil, planner.Placed(plan.Errorf(leaf.Start, leaf.Stop, "%s is not supported yet", leaf.Stream), text)
		}
		src, err := provider.Prepare(ctx, leaf)
		if err != nil {
			q.abandon()
			return nil, planner.Placed(err, text)
		}
		f := flow.NewFeed(len(q.feeds), leaf, src, q.q, q.t)
		q.feeds = append(q.feeds, f)
		if leaf.OnDemand && !f.Info.OnDemand {
			q.abandon()
			return nil, planner.Placed(plan.Errorf(leaf.Start, leaf.Stop, "the value of %s cannot be acquired on demand yet", leaf.Stream), text)
		}
		if p := e.shares.Offer(src, &f.OwnInfo, leaf, func() int64 { return q.id }); p != nil {
			f.Share(p)
		}
	}
	q.settle()
	var err error
	if q.gating, err = gating.New(q.feeds, q.plan.Root, text, func() bool { return q.life.may(stepAttach) }); err != nil {
		q.abandon()
		return nil, err
	}
	return q, nil
}

// feedOf is the feed of an acquisition.
func (q *query) feedOf(a *plan.Acquire) *flow.Feed {
	return q.feeds[slices.IndexFunc(q.feeds, func(f *flow.Feed) bool { return f.Spec == a })]
}

// residual is what the source of an acquisition leaves of its filter.
func (q *query) residual(a *plan.Acquire) plan.Expr {
	for _, f := range q.feeds {
		if f.Spec == a {
			return f.Info.Residual
		}
	}
	return a.Filter
}

// divide divides a query that is prepared between the engine and the client at the end of
// a path, as SET placement and steer say.
func (q *query) divide(path wire.Path, how string, steer func(uint64) int) (err error) {
	q.placement, err = placement.New(placement.Query{Root: q.plan.Root, Residual: q.residual, Live: q.live, Text: q.text}, path, how, steer)
	return err
}

// notices gathers what the planner and the sources have to say. Sources of one
// query may all say the same.
func (q *query) notices() []string {
	out := slices.Clone(q.plan.Notices)
	for _, f := range q.feeds {
		out = append(out, f.Source.Info().Notices...)
	}
	return answer.Distinct(append(out, q.gating.Notices()...))
}

// refusal is why a source will refuse to be armed because of what it costs.
func (q *query) refusal() error {
	for _, f := range q.feeds {
		if f.OwnInfo.Refusal == nil {
			continue
		}
		if err := f.Source.Info().Refusal; err != nil { // now, perhaps with others
			return err
		}
	}
	return nil
}

// start builds the operators, arms the sources and leaves the runner going.
// If any source cannot be armed, those that were are disarmed again, and the
// others let go of what they have loaded.
func (q *query) start() (err error) {
	defer func() {
		if err != nil {
			q.abandon()
		}
	}()
	if err := q.life.check(stepStart); err != nil {
		return err
	}
	if err := q.refusal(); err != nil { // before any source is armed
		return planner.Placed(err, q.text)
	}
	q.out = flow.NewOutlet(q.t, q.unread)
	q.out.Marks, q.out.Timed = q.marks, timed(q.plan.Root)
	q.out.Hurried.Store(slices.ContainsFunc(q.feeds, func(f *flow.Feed) bool { return f.Live }))
	last, root := q.last, q.plan.Root
	if last == nil {
		last = q.out
	}
	if q.placement != nil {
		last, root = q.placement, q.placement.Base
		q.placement.Out, q.placement.Now = q.out, q.now
	}
	built, err := graph.Build(root, last, &operators.Options{
		Clock:      q.now,
		Stats:      true,
		JoinMemory: q.joinMemory, EncoderBudget: q.encoderBudget,
		Demand: func(a *plan.Acquire) func(context.Context) error { return q.feedOf(a).OnDemand() },
		Tap:    q.gating.Tap,
		Residual: func(a *plan.Acquire) plan.Expr {
			if p := q.placement; p != nil && p.Tested && a == p.Base {
				return nil
			}
			return q.residual(a)
		},
	})
	if err != nil {
		return planner.Placed(err, q.text)
	}
	q.graph = built
	defer func() {
		if err != nil {
			_ = built.Abandon()
		}
	}()
	for _, f := range q.feeds {
		i := slices.IndexFunc(built.Leaves, func(l graph.Leaf) bool { return l.Acquire == f.Spec })
		q.leaves = append(q.leaves, built.Leaves[i])
	}
	q.collector = newCollector(q.feeds)
	for _, s := range q.taken() {
		q.pushAll(s)
	}
	// Values that others will ask for come first.
	order := slices.Clone(q.feeds)
	slices.SortStableFunc(order, func(a, b *flow.Feed) int { return cmp.Compare(a.Rank(), b.Rank()) })
	for _, f := range order {
		if q.standsBy(f) {
			continue // it is started
		}
		if err := f.Source.Start(q.ctx, f.Sink(q.leaves), f.Options); err != nil {
			return planner.Placed(err, q.text)
		}
	}
	q.gating.Start()
	q.started, q.began = time.Now(), clock.Now()
	built.Armed(q.began)
	q.placement.Begin(q.started, q.began)
	for _, f := range q.feeds {
		if !q.standsBy(f) {
			continue
		}
		if err := f.Control(probes.Begin{}); err != nil {
			return planner.Placed(err, q.text)
		}
	}
	q.reports.Lock()
	for _, s := range q.said {
		q.pushAll(s)
	}
	q.life.move(phaseRunning)
	q.reports.Unlock()
	q.recordAttached("armed")
	if q.release != nil {
		q.release()
	}
	go q.run(q.ctx)
	return nil
}

// standsBy reports whether the source of a feed is started and waits for Begin.
func (q *query) standsBy(f *flow.Feed) bool {
	return f.Options.Standby && q.life.phase() == phaseStandby
}

// now is the time by which rates count: once the query ends, that of its end. What was
// under way then may be given later.
func (q *query) now() int64 {
	if p := q.life.phase(); p == phaseEnding || p == phaseDone {
		return q.until
	}
	return clock.Now()
}

// armedAt is when the query was armed; NULL before.
func (q *query) armedAt() types.Value {
	if !q.life.started() {
		return types.NullOf(types.Timestamp)
	}
	return types.Time(q.began)
}

// end asks the query to finish and give what it has.
func (q *query) end() { q.stopOnce.Do(func() { close(q.stop) }) }

// run drives the operators until every leaf has ended.
func (q *query) run(ctx context.Context) {
	defer close(q.done)
	err := q.loop(ctx)
	q.beginEnd()
	q.q.Close()
	q.disarm(true).Wait()
	q.collector.asking.Wait()
	q.gating.End()
	for _, line := range q.gating.Footnotes() {
		q.t.AddNote(line)
	}
	for _, line := range q.placement.Footnotes() {
		q.t.AddNote(line)
	}
	if err != nil {
		_ = q.graph.Abandon()
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil
	}
	q.out.Finish(planner.Placed(err, q.text), time.Since(q.started))
	q.cancel()
	q.life.move(phaseDone)
}

// disarm stops the sources, each in a goroutine of its own, those that outlive
// others after them: a stopping source still gives what is under way, which the
// runner takes meanwhile, and for which it asks the others for values. Those are
// stopped with all.
func (q *query) disarm(all bool) *sync.WaitGroup {
	var wg, first sync.WaitGroup
	stop := func(f *flow.Feed) {
		if err := f.Source.Stop(); err != nil {
			f.Tally.AddNoted("detach: "+err.Error(), 1)
		}
	}
	for _, f := range q.feeds {
		if (f.Asked == nil || all) && !f.Outlives() {
			first.Add(1)
			wg.Go(func() { defer first.Done(); stop(f) })
		}
	}
	for _, f := range q.feeds {
		if f.Outlives() {
			wg.Go(func() { first.Wait(); stop(f) })
		}
	}
	return &wg
}

var _ probes.Sink = (*flow.Feed)(nil)

// load loads the sources, which takes long, and attaches nothing.
func (q *query) load(ctx context.Context) error {
	if err := q.life.check(stepLoad); err != nil {
		return err
	}
	if err := q.gating.Prepare(); err != nil {
		return err
	}
	for _, f := range q.feeds {
		if err := f.Source.Load(ctx, f.Options); err != nil {
			return planner.Placed(err, q.text)
		}
	}
	q.life.move(phaseLoaded)
	return nil
}

// standBy loads the sources and starts those that can stand by: they are attached, and
// give nothing before start.
func (q *query) standBy(ctx context.Context) error {
	for _, f := range q.feeds {
		f.Options.Standby = f.Info.Standby
	}
	if err := q.load(ctx); err != nil {
		return err
	}
	if err := q.life.check(stepStandBy); err != nil {
		return err
	}
	if err := q.charge(); err != nil {
		return answer.PlacedAt(err, -1, -1, q.text)
	}
	for _, f := range q.feeds {
		if !f.Options.Standby {
			continue
		}
		if err := f.Source.Start(q.ctx, f, f.Options); err != nil {
			return planner.Placed(err, q.text)
		}
	}
	if slices.ContainsFunc(q.feeds, func(f *flow.Feed) bool { return f.Options.Standby }) {
		q.recordAttached("standing by")
	}
	q.life.move(phaseStandby)
	return nil
}

// abandon releases a query that has not run. It does nothing to a query that runs, has
// run, or was abandoned before.
func (q *query) abandon() {
	if !q.life.move(phaseAbandoned) {
		return
	}
	q.q.Close() // sources that were armed must not wait for a runner
	for _, f := range q.feeds {
		_ = f.Source.Stop() // its End says why it could not
	}
	if q.discharge != nil { // it is counted
		q.discharge()
	}
	q.gating.End()
	q.cancel()
	close(q.done) // who wants to see the end of all queries waits for this one, too
}

// leave takes a query that has ended off the engine's list by a function, which reports
// whether the query was on it. The first call that finds it there ends what it counts
// for among what its user uses; the others wait for that.
func (q *query) leave(remove func() (listed bool)) {
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

// failure is why the query ended, once it is done; nil if as it should.
func (q *query) failure() error {
	return q.out.Failure()
}

// sharedWith are the other queries that have a part in what q acquires.
func (q *query) sharedWith() (ids []int64) {
	for _, f := range q.feeds {
		if f.Part != nil {
			ids = append(ids, f.Part.Others()...)
		}
	}
	slices.Sort(ids)
	return slices.DeleteFunc(slices.Compact(ids), func(id int64) bool { return id == q.id })
}

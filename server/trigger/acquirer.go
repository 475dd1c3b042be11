package trigger

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/graph"
	"endoscope/planner"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/clock"
	"endoscope/server/query"
)

// Acquirer is an action that runs a query: SAMPLE and MONITOR, which are on or
// off, and SELECT and INSERT, which run once for each activation, one at a
// time.
//
// The next query stands by with all its probes attached before it is needed; it
// is prepared as soon as the previous one has begun. An activation then only
// has to let it begin. If waiting with probes attached would cost the target
// too much (CostMonitor), or must cost nothing, the query is only loaded, and
// attached on activation. One goroutine arms and ends queries; it does not wait
// for an end, since the kernel takes tens of milliseconds to detach.
type Acquirer struct {
	t       *Trigger
	act     *planner.Action
	prepare func(ctx context.Context, attached bool) (*query.Query, error)
	Notices []string // of the query, for the user who creates the trigger
	wake    chan struct{}
	done    chan struct{}

	// Used by the goroutine only.
	standby         *query.Query
	preparing       chan *query.Query // delivers a standby query that is being prepared; nil: none is
	running, ending *query.Query
	number          *atomic.Int64 // number of the activation that running belongs to
	monitor         *CostMonitor
	discarding      sync.WaitGroup // standby queries that cost too much

	mu       sync.Mutex // guards the following
	late     string     // why probes are attached only on activation; "": they are attached before
	wanted   bool
	since    activation // the activation for which a query is wanted
	deadline time.Time  // end of FOR; zero: none
	busy     bool       // a query runs
	last     bool       // no activation follows
	skipped  uint64
}

// NewAcquirer returns the acquirer of an action, with its first query standing
// by. late is the reason for which probes are attached only on activation; "":
// they are attached before.
func NewAcquirer(ctx context.Context, t *Trigger, act *planner.Action, late string, v *CostMonitor, prepare func(context.Context, bool) (*query.Query, error)) (*Acquirer, error) {
	q := &Acquirer{t: t, act: act, late: late, monitor: v, prepare: prepare, wake: make(chan struct{}, 1), done: make(chan struct{})}
	var err error
	if q.standby, err = prepare(ctx, late == ""); err != nil {
		return nil, err
	}
	if late == "" {
		v.watch(q.standby)
		if late = v.first(ctx); late != "" {
			q.late = late
			q.standby.Abandon()
			if q.standby, err = prepare(ctx, false); err != nil {
				return nil, err
			}
		}
	}
	q.Notices = q.standby.Notices()
	go q.run()
	return q, nil
}

func (q *Acquirer) activate(a activation) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.act.For > 0 {
		q.deadline = time.Now().Add(q.act.For)
	}
	if q.wanted {
		if !q.act.Acquires() {
			q.skipped++
		}
		return
	}
	q.wanted, q.since = true, a
	q.signal()
}

func (q *Acquirer) relent(int64) { q.relax() }

// relax turns the action off unless it stays on for ever.
func (q *Acquirer) relax() {
	if !q.t.Plan.Once {
		q.off()
	}
}

func (q *Acquirer) stream() string { return q.act.Stream }

// off turns SAMPLE and MONITOR off.
func (q *Acquirer) off() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.wanted && q.act.Acquires() {
		q.wanted = false
		q.signal()
	}
}

// finish leaves on what stays on for ever, and otherwise lets a query run to
// its end.
func (q *Acquirer) finish() {
	q.relax()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last = true
	q.signal()
}

func (q *Acquirer) wait() { <-q.done }

func (q *Acquirer) Status() actorStatus {
	q.mu.Lock()
	defer q.mu.Unlock()
	return actorStatus{acting: q.wanted || q.busy, skipped: q.skipped, Late: q.late}
}

func (q *Acquirer) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// wish returns the wanted state. due is the end of FOR; zero: none.
func (q *Acquirer) wish() (wanted, last bool, since activation, due time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.deadline.IsZero() && !time.Now().Before(q.deadline) {
		q.wanted, q.deadline = false, time.Time{}
	}
	q.busy = q.running != nil || q.ending != nil
	return q.wanted, q.last, q.since, q.deadline
}

// satisfied records that the wanted query ended by itself.
func (q *Acquirer) satisfied() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wanted, q.deadline = false, time.Time{}
}

func (q *Acquirer) run() {
	defer close(q.done)
	defer q.abandonAll()
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer q.monitor.end()
	for {
		wanted, last, since, due := q.wish()
		switch {
		case wanted && q.running == nil:
			q.arm(since)
			continue
		case wanted:
			q.number.Store(since.n) // it was turned off and on again meanwhile
		case q.running != nil:
			q.running.End()
			q.settle()
			q.ending, q.running = q.running, nil
			continue
		case last:
			q.settle()
			return
		}
		var over <-chan time.Time
		if !due.IsZero() {
			timer.Reset(time.Until(due))
			over = timer.C
		}
		select {
		case <-q.wake:
		case <-over:
		case <-doneOf(q.running):
			q.ended(q.running)
			q.running = nil
			q.satisfied()
		case <-doneOf(q.ending):
			q.settle()
		case s := <-q.preparing:
			q.standby, q.preparing = s, nil
			q.monitor.watch(s)
		case <-q.monitor.tick():
			if late := q.monitor.check(); late != "" {
				q.armLate(late)
			}
		case <-q.t.Quit:
			return
		}
	}
}

// abandonAll abandons all remaining queries.
func (q *Acquirer) abandonAll() {
	if q.running != nil {
		q.t.cancel(q.running)
		q.ended(q.running)
	}
	q.settle()
	if q.preparing != nil {
		q.standby = <-q.preparing
	}
	if q.standby != nil {
		q.standby.Abandon()
	}
	q.discarding.Wait()
}

// armLate makes standby queries wait without probes from now on, for the reason
// late.
func (q *Acquirer) armLate(late string) {
	q.mu.Lock()
	q.late = late
	q.mu.Unlock()
	dear := q.standby
	q.standby = nil
	q.discarding.Go(dear.Abandon)
	q.prepareNext()
	q.t.Tell(q.t.Plan.Name + ": " + LateNotice(q.act, late))
}

// settle waits until the query that is ending, if any, has ended.
func (q *Acquirer) settle() {
	if q.ending != nil {
		<-q.ending.Done
		q.ended(q.ending)
		q.ending = nil
	}
}

func (q *Acquirer) ended(run *query.Query) {
	q.t.endQuery(run)
	if err := run.Failure(); err != nil {
		q.t.fail(err)
	}
}

// doneOf returns the channel that is closed when a query has ended; nil for no
// query.
func doneOf(q *query.Query) <-chan struct{} {
	if q == nil {
		return nil
	}
	return q.Done
}

// arm starts the standby query, and has the next one prepared.
func (q *Acquirer) arm(since activation) {
	run := q.standby
	q.standby = nil
	q.monitor.watch(nil) // also if the query fails to begin
	if run == nil && q.preparing != nil {
		run, q.preparing = <-q.preparing, nil
	}
	if run == nil {
		var err error
		if run, err = q.prepare(context.Background(), false); err != nil {
			q.satisfied()
			q.t.fail(err)
			return
		}
	}
	q.number = &atomic.Int64{}
	q.number.Store(since.n)
	run.Last = newPublisher(q.t.Stream, run, q.number, q.act.Text)
	if err := q.t.BeginQuery(run); err != nil {
		q.satisfied()
		q.t.fail(err)
		return
	}
	q.running = run
	q.t.armed(since)
	q.prepareNext()
}

// prepareNext prepares the next standby query.
func (q *Acquirer) prepareNext() {
	q.monitor.watch(nil)
	q.mu.Lock()
	attached := q.late == ""
	q.mu.Unlock()
	coming := make(chan *query.Query, 1)
	q.preparing = coming
	go func() {
		next, err := q.prepare(context.Background(), attached)
		if err != nil {
			next = nil // retried on activation, which reports the error
		}
		coming <- next
	}()
}

// publisher is the last operator of an action's query. It publishes the rows on
// the trigger's stream.
type publisher struct {
	stream *Stream
	q      *query.Query
	number *atomic.Int64
	action string
	time   int // index of the time column; -1: none
	row    func([]byte, *batch.Batch, int) []byte
}

func newPublisher(stream *Stream, q *query.Query, number *atomic.Int64, action string) *publisher {
	sch := q.Plan.Root.Schema()
	names := make([]string, len(sch.Fields))
	for i, f := range sch.Fields {
		names[i] = f.Name
	}
	p := &publisher{stream: stream, q: q, number: number, action: action, time: -1, row: graph.JSON(names)}
	if t := sch.Time; t >= 0 && sch.Fields[t].Type == types.Timestamp {
		p.time = t
	}
	return p
}

// Push implements operators.Operator.
func (p *publisher) Push(_ context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	p.q.Tally.Rows.Add(uint64(b.Len()))
	if !p.stream.heard(b.Len()) {
		return operators.More, nil
	}
	rows := make([]streamRow, b.Len())
	now, n := clock.Now(), p.number.Load()
	for i := range rows {
		row := b.Row(i)
		r := streamRow{at: now, activation: n, action: p.action, row: string(p.row(nil, b, row))}
		if p.time >= 0 && !b.Cols[p.time].Nulls.Get(row) {
			r.at = b.Cols[p.time].Int[row]
		}
		rows[i] = r
	}
	p.stream.publish(rows...)
	return operators.More, nil
}

// Signal implements operators.Operator.
func (p *publisher) Signal(_ context.Context, _ int, s operators.Signal) (operators.Status, error) {
	if s.Kind == operators.Gap {
		p.q.Tally.AddLost(s.Cause, s.N)
	}
	return operators.More, nil
}

// Close implements operators.Operator.
func (p *publisher) Close(context.Context, int) error { return nil }

// Promptly returns the plan with events of functions delivered as they happen.
func Promptly(p *plan.Query) *plan.Query {
	return withAcquires(p, func(a *plan.Acquire) { a.Settings.Prompt = true })
}

// withAcquires returns a copy of a plan with its acquisitions changed.
func withAcquires(p *plan.Query, change func(*plan.Acquire)) *plan.Query {
	out := *p
	out.Root = plan.TransformNodes(p.Root, func(n plan.Node) plan.Node {
		a, ok := n.(*plan.Acquire)
		if !ok {
			return n
		}
		c := *a
		change(&c)
		return &c
	})
	return &out
}

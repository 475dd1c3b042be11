package trigger

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"endoscope/planner"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/server/query"
)

// Acquirer is an action that runs a query: SAMPLE and MONITOR, which are on or
// off, and SELECT and INSERT, which run once for each activation, one at a
// time.
//
// Its probes are attached before they are needed, unless waiting with them
// would cost the target too much (costMonitor), or must cost nothing. Attaching
// takes the kernel 5 to 20 ms, since it waits until no CPU is in a section that
// reads what it changes (percpu_down_write in kernel/events/uprobes.c).
//
// Activations, FOR and STOP change the wanted state; one goroutine has the
// query follow it.
type Acquirer struct {
	t       *Trigger
	act     *planner.Action
	prepare func(context.Context, *plan.Query) (*query.Query, error)
	Notices []string      // of the query, for the user who creates the trigger
	wake    chan struct{} // holds a token after a change of the wanted state
	done    chan struct{}
	arming  arming
	monitor *costMonitor // used by the goroutine only
	busy    atomic.Int32 // number of queries that run or are ending

	mu      sync.Mutex // guards the following
	wanted  wanted
	timer   *time.Timer // calls expire at the end of FOR; nil: it was not set yet
	over    bool        // nothing can be armed any more
	skipped uint64
}

// wanted is the state that an action should be in.
type wanted struct {
	on       bool
	since    activation // the activation for which it is on
	deadline time.Time  // end of FOR
	last     bool       // no activation follows
	late     string     // why probes are attached only while it is on; "": they are attached before
}

// arming is how the query of an action is armed: a new one for each activation
// (standby), or one behind a gate (gated). Only the Acquirer's goroutine calls
// it, except for open and shut.
type arming interface {
	// open opens the gate for the n-th activation, and reports whether there is
	// one. The caller of open and shut holds Acquirer.mu.
	open(n int64) bool
	// shut shuts the gate.
	shut()
	// follow has the query follow the wanted state, as far as open and shut
	// have not done so.
	follow(w wanted) error
	// done returns the channel that is closed when the query that runs has
	// ended; nil: none runs.
	done() <-chan struct{}
	// ended is called when it has ended, and reports whether another one can be
	// armed.
	ended() bool
	// waiting returns the sources that are attached while the action is off.
	waiting() []probes.Source
	// close releases everything. It abandons the query that runs.
	close()
}

// NewAcquirer returns the acquirer of an action with a plan. setting is the
// value of SET trigger_arming.
func NewAcquirer(ctx context.Context, t *Trigger, act *planner.Action, p *plan.Query, setting string, prepare func(context.Context, *plan.Query) (*query.Query, error)) (*Acquirer, error) {
	q := &Acquirer{t: t, act: act, prepare: prepare, monitor: newCostMonitor(setting), wake: make(chan struct{}, 1), done: make(chan struct{})}
	q.wanted.late = LateBySetting(setting, p)
	s := &standby{q: q, plan: p, attached: q.wanted.late == ""}
	if s.attached {
		p = Unshared(p)
	}
	first, err := prepare(ctx, p)
	if err != nil {
		return nil, err
	}
	if Gateable(act, first, setting) {
		q.arming, err = newGated(q, first)
	} else {
		q.arming, err = s, hold(ctx, first, s.attached)
		s.next.Store(first)
	}
	if err != nil {
		first.Abandon()
		return nil, err
	}
	q.Notices = first.Notices()
	if q.wanted.late == "" {
		q.monitor.watch(q.arming.waiting())
		q.wanted.late = q.monitor.first(ctx)
	}
	go q.run()
	return q, nil
}

func (q *Acquirer) activate(a activation) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over {
		q.skipped++
		if !Stopped(q.t.Quit) {
			q.t.fail(fmt.Errorf("%s: what it monitors has ended", q.act.Text))
		}
		return
	}
	if d := q.act.For; d > 0 {
		q.wanted.deadline = time.Now().Add(d)
		if q.timer == nil {
			q.timer = time.AfterFunc(d, q.expire)
		}
		q.timer.Reset(d)
	}
	if q.wanted.on {
		if !q.act.Acquires() {
			q.skipped++
		}
		return
	}
	q.wanted.on, q.wanted.since = true, a
	if q.arming.open(a.n) && q.wanted.late == "" {
		q.t.armed(a)
	} else {
		q.signal()
	}
}

// expire is called when FOR is over. It does nothing if an activation extended
// it: the timer may have fired before that and waited for mu.
func (q *Acquirer) expire() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !time.Now().Before(q.wanted.deadline) {
		q.turnOffLocked()
	}
}

func (q *Acquirer) turnOff() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.turnOffLocked()
}

// turnOffLocked is turnOff; the caller holds mu.
func (q *Acquirer) turnOffLocked() {
	if q.wanted.on {
		q.wanted.on = false
		q.arming.shut()
		q.signal()
	}
}

func (q *Acquirer) deactivate(int64) {
	if !q.t.Plan.Once { // otherwise it stays on
		q.off()
	}
}

// off turns SAMPLE and MONITOR off.
func (q *Acquirer) off() {
	if q.act.Acquires() {
		q.turnOff()
	}
}

// finish leaves on what stays on for ever, and otherwise lets a query run to
// its end.
func (q *Acquirer) finish() {
	q.deactivate(0)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wanted.last = true
	q.signal()
}

func (q *Acquirer) wait() { <-q.done }

func (q *Acquirer) Status() actorStatus {
	q.mu.Lock()
	defer q.mu.Unlock()
	return actorStatus{acting: q.wanted.on || q.busy.Load() > 0, skipped: q.skipped, Late: q.wanted.late}
}

func (q *Acquirer) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *Acquirer) run() {
	defer close(q.done)
	defer q.end()
	for q.follow() {
		select {
		case <-q.wake:
		case <-q.arming.done():
			if !q.arming.ended() {
				return
			}
			q.turnOff()
		case <-q.monitor.tick():
			if late := q.monitor.check(); late != "" {
				q.mu.Lock()
				q.wanted.late = late
				q.mu.Unlock()
				q.t.Notify(q.t.Plan.Name + ": " + LateNotice(q.act, late))
			}
		case <-q.t.Quit:
			return
		}
	}
}

// follow has the query follow the wanted state, and reports whether the action
// goes on.
func (q *Acquirer) follow() bool {
	q.mu.Lock()
	w := q.wanted
	q.mu.Unlock()
	if err := q.arming.follow(w); err != nil {
		q.t.fail(err)
		q.turnOff() // the next activation tries again
	}
	var waiting []probes.Source
	if w.late == "" {
		waiting = q.arming.waiting()
	}
	q.monitor.watch(waiting)
	return w.on || !w.last || q.arming.done() != nil
}

// end releases everything and refuses further activations.
func (q *Acquirer) end() {
	q.monitor.end()
	q.arming.close()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.timer != nil {
		q.timer.Stop()
	}
	q.wanted.on, q.over = false, true
}

// settle accounts for a query that has ended.
func (q *Acquirer) settle(run *query.Query) {
	q.t.endQuery(run)
	if err := run.Failure(); err != nil {
		q.t.fail(err)
	}
}

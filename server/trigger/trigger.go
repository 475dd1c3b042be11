package trigger

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"endoscope/operators/batch"
	"endoscope/operators/graph"
	"endoscope/parser"
	"endoscope/planner"
	"endoscope/probes/clock"
	"endoscope/server/flow"
	"endoscope/server/query"
)

// Trigger is a running CREATE TRIGGER: a query whose tuples activate actions.
// It outlives the statement that created it, and the session.
//
//	when (query) ─► graph.Trigger ─► actors, each with a goroutine of its own
//	                 its runner's            │ where it may have to wait
//	                                         ▼
//	                                      stream ─► inbox of its creator, queries
//
// It ends in two steps: first its query ends (the target has exited, or the
// trigger was dropped), then its actors finish.
type Trigger struct {
	Plan     *planner.Trigger
	Text     string
	Mode     string
	When     *query.Query
	Operator *graph.Trigger
	Actors   []Actor
	Stream   *Stream
	Ledger   *ledger
	Host     host
	Inbox    *Inbox                                 // of the session that created it
	Notify   func(text string)                      // notifies the user who created it
	Owner    string                                 // the owner's name
	Standing string                                 // the id of the standing query whose results are the tuples; "": they are others
	Tuple    func([]byte, *batch.Batch, int) []byte // returns a tuple as JSON

	Notices  []string // for the user who creates it
	Errors   lastError
	Latency  atomic.Int64  // longest from a tuple to what it armed, ns
	Quit     chan struct{} // closed to end the trigger at once
	quitOnce sync.Once
	Over     chan struct{} // closed when nothing of the trigger is attached any more
}

// host runs the queries of triggers.
type host interface {
	// Enter adds a query that is about to be started to the engine's list. A
	// refused query is abandoned.
	Enter(q *query.Query) error
	// Leave removes a query that has ended from the list.
	Leave(q *query.Query)
}

// BeginQuery enters a query of the trigger in the engine's list and starts it;
// endQuery removes it.
func (t *Trigger) BeginQuery(q *query.Query) error {
	q.Grant.Uses().AwaitLog(t.Quit) // activations meanwhile are skipped
	err := t.Host.Enter(q)
	if err != nil {
		return err
	}
	t.Ledger.enter(q)
	if err = q.Start(); err != nil {
		t.endQuery(q)
	}
	return err
}

func (t *Trigger) endQuery(q *query.Query) {
	t.Host.Leave(q)
	t.Ledger.settle(q)
}

// Arming returns, for sys.triggers, the number of skipped activations, and why
// the acquisitions of the actions are attached late, if there are any.
func (t *Trigger) Arming() (skipped uint64, arming string) {
	for _, a := range t.Actors {
		st := a.Status()
		skipped += st.skipped
		if _, ok := a.(*Acquirer); ok && (arming == "" || st.Late != "") {
			arming = cmp.Or(st.Late, "at once")
		}
	}
	return skipped, arming
}

// Actor is one action of a trigger. activate and deactivate do not block.
type Actor interface {
	// activate is called for each tuple that satisfies the condition.
	activate(a activation)
	// deactivate is called for the first tuple that fails the condition, with its
	// event time.
	deactivate(at int64)
	// finish reports that no tuple follows. The actor ends what it would turn
	// off, and is done when the rest has ended.
	finish()
	// wait returns when the actor is done.
	wait()
	// Status returns the actor's row for sys.triggers.
	Status() actorStatus
}

// actorStatus is the status of an actor.
type actorStatus struct {
	acting  bool   // it acquires, or an action is in progress
	skipped uint64 // activations without effect, since the action was in progress or had ended for good
	lost    uint64 // webhooks not delivered
	Late    string // why probes are attached only on activation; "": they are not late
}

// activation is one tuple that satisfied the condition.
type activation struct {
	n     int64
	at    int64  // event time, ns since the epoch
	tuple string // as JSON; "" if no action shows it
}

// lastError holds the last error, for sys.triggers.
type lastError struct {
	mu   sync.Mutex
	text string
}

// set stores an error and reports whether it differs from the previous one.
func (l *lastError) set(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.text
	l.text = err.Error()
	return l.text != before
}

func (l *lastError) Get() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text
}

// Abandon releases a trigger that could not be started.
func (t *Trigger) Abandon() {
	t.Drop()
	t.When.Abandon()
	t.Stream.close()
	for _, a := range t.Actors {
		a.finish()
		a.wait()
	}
	close(t.Over) // others may have found it by name and wait
}

// Activate implements operators.Actor.
func (t *Trigger) Activate(n int64, b *batch.Batch, row int) {
	a := activation{n: n, at: t.timeOf(b, row)}
	if t.Tuple != nil {
		a.tuple = string(t.Tuple(nil, b, row))
	}
	for _, act := range t.Actors {
		act.activate(a)
	}
}

// timeOf returns the event time of a tuple, in ns since the epoch; now, if it
// has none.
func (t *Trigger) timeOf(b *batch.Batch, row int) int64 {
	if t.Plan.Time >= 0 {
		if c := &b.Cols[t.Plan.Time]; !c.Nulls.Get(row) {
			return c.Int[row]
		}
	}
	return clock.Now()
}

// Deactivate implements operators.Actor.
func (t *Trigger) Deactivate(b *batch.Batch, row int) {
	at := t.timeOf(b, row)
	for _, act := range t.Actors {
		act.deactivate(at)
	}
}

// Lost implements operators.Actor.
func (t *Trigger) Lost(cause string, n uint64) { t.When.Tally.AddLost(cause, n) }

// Losses returns the losses and counts of all queries that the trigger ran.
func (t *Trigger) Losses() *flow.Tally {
	sum := t.Ledger.total()
	for _, a := range t.Actors {
		sum.AddLost("webhook not delivered", a.Status().lost)
	}
	return sum
}

// Run runs the trigger until it ends.
func (t *Trigger) Run() {
	select {
	case <-t.When.Done:
	case <-t.Quit:
		t.cancel(t.When)
	}
	t.endQuery(t.When)
	if err := t.When.Failure(); err != nil {
		t.fail(err)
	}
	for _, a := range t.Actors {
		a.finish()
	}
	for _, a := range t.Actors {
		a.wait()
	}
	t.Stream.close()
	close(t.Over)
	t.Inbox.ended(t)
}

// cancel abandons a query of a dropped trigger: its rows in flight are
// discarded, and not counted as lost.
func (t *Trigger) cancel(q *query.Query) {
	t.Ledger.settle(q)
	q.Cancel()
	<-q.Done
}

// Drop asks the trigger to end now.
func (t *Trigger) Drop() { t.quitOnce.Do(func() { close(t.Quit) }) }

// fail records an error and notifies the trigger's creator once.
func (t *Trigger) fail(err error) {
	var e *parser.Error
	if errors.As(err, &e) {
		err = errors.New(e.Msg) // its position refers to the statement that created the trigger
	}
	if t.Errors.set(err) {
		t.Notify(fmt.Sprintf("trigger %s: %v", t.Plan.Name, err))
	}
}

// armed records how long after its tuple an acquisition was armed, if that is
// the longest delay so far.
func (t *Trigger) armed(a activation) {
	d := clock.Now() - a.at
	for {
		longest := t.Latency.Load()
		if d <= longest || t.Latency.CompareAndSwap(longest, d) {
			return
		}
	}
}

// State returns the state that sys.triggers shows.
func (t *Trigger) State() string {
	select {
	case <-t.Over:
		return "ended"
	default:
	}
	for _, a := range t.Actors {
		if a.Status().acting {
			return "acting"
		}
	}
	select {
	case <-t.When.Done:
		return "ending"
	default:
		return "waiting"
	}
}

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

// Trigger is a CREATE TRIGGER that lives in the engine: a query whose tuples
// activate actions. It outlives the statement that made it, and the session.
//
//	when (query) ─► graph.Trigger ─► actors, each with a goroutine of its own
//	                 its runner's            │ where it may have to wait
//	                                         ▼
//	                                      stream ─► inbox of its creator, queries
//
// Its end has two steps: no tuple comes any more (the target is gone, or it was
// dropped), then the actors are done.
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
	Inbox    *Inbox                                 // of the session that made it
	Tell     func(text string)                      // notifies the user who made it
	Owner    string                                 // whose it is
	Tuple    func([]byte, *batch.Batch, int) []byte // as JSON

	Notices  []string // for whoever makes it
	Errors   lastError
	ended    atomic.Bool   // no tuple follows
	Latency  atomic.Int64  // longest from a tuple to what it armed, ns
	Quit     chan struct{} // closed: end at once
	quitOnce sync.Once
	Over     chan struct{} // closed when nothing of it is attached any more
}

// host runs the queries of triggers.
type host interface {
	// Enter adds a query that is about to be started to the engine's list. A query that
	// is refused is abandoned.
	Enter(q *query.Query) error
	// Leave takes a query that has ended off the list.
	Leave(q *query.Query)
}

// BeginQuery starts a query of the trigger, which is in the engine's list from before on;
// endQuery takes it off.
func (t *Trigger) BeginQuery(q *query.Query) error {
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

// Arming is for sys.triggers: the activations for which nothing was done, and why what
// the actions acquire is attached late, if anything is acquired.
func (t *Trigger) Arming() (skipped uint64, arming string) {
	for _, a := range t.Actors {
		st := a.Status()
		skipped += st.skipped
		if _, ok := a.(acquiring); ok && (arming == "" || st.Late != "") {
			arming = cmp.Or(st.Late, "at once")
		}
	}
	return skipped, arming
}

// Actor is one action of a trigger. activate and relent do not block.
type Actor interface {
	// activate is called for each tuple that satisfies the condition.
	activate(a activation)
	// relent is called for the first that fails it, with its event time.
	relent(at int64)
	// finish says that no tuple follows. The actor ends what it would undo, and
	// is done when the rest has come to its end.
	finish()
	// wait returns when the actor is done.
	wait()
	// Status is for sys.triggers.
	Status() actorStatus
}

// acquiring is an actor that STOP can turn off.
type acquiring interface {
	Actor
	stream() string // that it acquires
	off()
}

// actorStatus is what there is to know of an actor.
type actorStatus struct {
	acting  bool   // something is acquired or under way
	skipped uint64 // activations for which nothing was done, as it was under way, or had ended for good
	lost    uint64 // webhooks not delivered
	Late    string // why what it acquires is attached only when it is wanted; "": it is not
}

// activation is one tuple that satisfied the condition.
type activation struct {
	n     int64
	at    int64  // event time, ns since the epoch
	tuple string // as JSON; "" where no action shows it
}

// lastError remembers the last error, for sys.triggers.
type lastError struct {
	mu   sync.Mutex
	text string
}

// set reports whether the error is another one than before.
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

// Abandon lets go of a trigger that could not be started.
func (t *Trigger) Abandon() {
	t.Drop()
	t.When.Abandon()
	t.Stream.close()
	for _, a := range t.Actors {
		a.finish()
		a.wait()
	}
	close(t.Over) // it may have been seen under its name
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

// timeOf is the event time of a tuple, ns since the epoch; of one that has none, now.
func (t *Trigger) timeOf(b *batch.Batch, row int) int64 {
	if t.Plan.Time >= 0 {
		if c := &b.Cols[t.Plan.Time]; !c.Nulls.Get(row) {
			return c.Int[row]
		}
	}
	return clock.Now()
}

// Relent implements operators.Actor.
func (t *Trigger) Relent(b *batch.Batch, row int) {
	at := t.timeOf(b, row)
	for _, act := range t.Actors {
		act.relent(at)
	}
}

// Lost implements operators.Actor.
func (t *Trigger) Lost(cause string, n uint64) { t.When.Tally.AddLost(cause, n) }

// Losses are those of all that the trigger has run, and counts what is none.
func (t *Trigger) Losses() *flow.Tally {
	sum := t.Ledger.total()
	for _, a := range t.Actors {
		sum.AddLost("webhook not delivered", a.Status().lost)
	}
	return sum
}

// Run waits for the trigger's end.
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
	t.ended.Store(true)
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

// cancel abandons a query of a trigger that was dropped: what is under way is not
// wanted, and not lost.
func (t *Trigger) cancel(q *query.Query) {
	t.Ledger.settle(q)
	q.Cancel()
	<-q.Done
}

// Drop asks the trigger to end now.
func (t *Trigger) Drop() { t.quitOnce.Do(func() { close(t.Quit) }) }

// fail notes what went wrong and tells whoever made the trigger, once.
func (t *Trigger) fail(err error) {
	var e *parser.Error
	if errors.As(err, &e) {
		err = errors.New(e.Msg) // its place was told when the trigger was made
	}
	if t.Errors.set(err) {
		t.Tell(fmt.Sprintf("trigger %s: %v", t.Plan.Name, err))
	}
}

// armed notes how long after its tuple an acquisition was armed.
func (t *Trigger) armed(a activation) {
	d := clock.Now() - a.at
	for {
		longest := t.Latency.Load()
		if d <= longest || t.Latency.CompareAndSwap(longest, d) {
			return
		}
	}
}

// State is for sys.triggers.
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

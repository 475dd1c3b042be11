package server

import (
	"cmp"

	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"endoscope/operators/batch"
	"endoscope/operators/graph"
	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/plan"
	"endoscope/probes/clock"
	"endoscope/server/answer"
	"endoscope/server/flow"
	"endoscope/server/query"
	"endoscope/server/wire"
)

// trigger is a CREATE TRIGGER that lives in the engine: a query whose tuples
// activate actions. It outlives the statement that made it, and the session.
//
//	when (query) ─► graph.Trigger ─► actors, each with a goroutine of its own
//	                 its runner's            │ where it may have to wait
//	                                         ▼
//	                                      stream ─► inbox of its creator, queries
//
// Its end has two steps: no tuple comes any more (the target is gone, or it was
// dropped), then the actors are done.
type trigger struct {
	plan   *planner.Trigger
	text   string
	mode   string
	when   *query.Query
	op     *graph.Trigger
	actors []actor
	stream *triggerStream
	ledger *ledger
	host   host
	inbox  *inbox                                 // of the session that made it
	tell   func(text string)                      // notifies the user who made it
	user   string                                 // whose it is
	tuple  func([]byte, *batch.Batch, int) []byte // as JSON

	notices  []string // for whoever makes it
	errors   lastError
	ended    atomic.Bool   // no tuple follows
	latency  atomic.Int64  // longest from a tuple to what it armed, ns
	quit     chan struct{} // closed: end at once
	quitOnce sync.Once
	over     chan struct{} // closed when nothing of it is attached any more
}

// host runs the queries of triggers.
type host interface {
	// Enter adds a query that is about to be started to the engine's list. A query that
	// is refused is abandoned.
	Enter(q *query.Query) error
	// Leave takes a query that has ended off the list.
	Leave(q *query.Query)
}

// beginQuery starts a query of the trigger, which is in the engine's list from before on;
// endQuery takes it off.
func (t *trigger) beginQuery(q *query.Query) error {
	err := t.host.Enter(q)
	if err != nil {
		return err
	}
	t.ledger.enter(q)
	if err = q.Start(); err != nil {
		t.endQuery(q)
	}
	return err
}

func (t *trigger) endQuery(q *query.Query) {
	t.host.Leave(q)
	t.ledger.settle(q)
}

// arming is for sys.triggers: the activations for which nothing was done, and why what
// the actions acquire is attached late, if anything is acquired.
func (t *trigger) arming() (skipped uint64, arming string) {
	for _, a := range t.actors {
		st := a.status()
		skipped += st.skipped
		if _, ok := a.(acquiring); ok && (arming == "" || st.late != "") {
			arming = cmp.Or(st.late, "at once")
		}
	}
	return skipped, arming
}

// actor is one action of a trigger. activate and relent do not block.
type actor interface {
	// activate is called for each tuple that satisfies the condition.
	activate(a activation)
	// relent is called for the first that fails it, with its event time.
	relent(at int64)
	// finish says that no tuple follows. The actor ends what it would undo, and
	// is done when the rest has come to its end.
	finish()
	// wait returns when the actor is done.
	wait()
	// status is for sys.triggers.
	status() actorStatus
}

// acquiring is an actor that STOP can turn off.
type acquiring interface {
	actor
	stream() string // that it acquires
	off()
}

// actorStatus is what there is to know of an actor.
type actorStatus struct {
	acting  bool   // something is acquired or under way
	skipped uint64 // activations for which nothing was done, as it was under way, or had ended for good
	lost    uint64 // webhooks not delivered
	late    string // why what it acquires is attached only when it is wanted; "": it is not
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

func (l *lastError) get() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text
}

// createTrigger runs CREATE TRIGGER. What the actions acquire is prepared here,
// so that an activation has only to attach it.
func (s *session) createTrigger(ctx context.Context, st *parser.CreateTrigger, text string) (wire.Result, error) {
	p, err := planner.PlanTrigger(st, text, s.env())
	if err != nil {
		return nil, err
	}
	t := &trigger{plan: p, text: text, mode: "continuous", stream: newTriggerStream(), ledger: newLedger(), host: queryHost{s.e}, inbox: s.inbox, tell: s.tell, user: s.may.Name(), quit: make(chan struct{}), over: make(chan struct{})}
	if err := refuseSelf(p, st.Name, text); err != nil {
		return nil, err
	}
	if p.Once {
		t.mode = "once"
	}
	if p.Tuple != nil {
		names := make([]string, len(p.Tuple))
		for i, f := range p.Tuple {
			names[i] = f.Name
		}
		t.tuple = graph.JSON(names)
	}
	when, err := s.permitted(p.When, text)
	if err != nil {
		return nil, err
	}
	if t.when, err = s.prepare(ctx, text, promptly(when)); err != nil {
		return nil, err
	}
	s.budgets().give(t.when)
	t.notices = append(p.Notices, t.when.Notices()...)
	t.op = graph.NewTrigger(p.Condition, t)
	t.when.Last = t.op
	for i := range p.Actions {
		a, err := s.actor(ctx, t, &p.Actions[i], text)
		if err != nil {
			t.abandon()
			return nil, err
		}
		switch a := a.(type) {
		case *acquirer:
			t.notices = append(t.notices, a.notices...)
		case *shutter:
			t.notices = append(t.notices, a.q.Notices()...)
		}
		if late := a.status().late; late != "" && late != asRequested {
			t.notices = append(t.notices, lateNotice(&p.Actions[i], late))
		}
		t.actors = append(t.actors, a)
	}
	release, err := s.e.triggers.claim(ctx, p.Name)
	if err != nil {
		t.abandon()
		return nil, err
	}
	defer release()
	if err := s.mayReplaceTrigger(st, text); err != nil {
		t.abandon()
		return nil, err
	}
	old, err := s.e.triggers.enter(t, st.Replace)
	if err != nil {
		t.abandon()
		var e *plan.Error
		if errors.As(err, &e) {
			err = answer.Refuse(st.Name, text, e.Hint, "%s", e.Msg)
		}
		return nil, err
	}
	s.inbox.follow(t)
	s.holdBack(t.when)
	if err := t.beginQuery(t.when); err != nil {
		s.e.triggers.leave(t, old)
		s.inbox.unfollow(t)
		t.abandon()
		return nil, err
	}
	s.e.triggers.settle(t)
	go t.run()
	if old != nil {
		old.drop()
		<-old.over
	}
	r := answer.Messagef("trigger %s created", p.Name)
	plans := []*plan.Query{t.when.Plan}
	for i := range p.Actions {
		if q := p.Actions[i].Query; q != nil {
			plans = append(plans, q)
		}
	}
	if err := s.keep("trigger", p.Name, text, plans...); err != nil {
		t.notices = append(t.notices, err.Error())
	}
	r.Notices = answer.Distinct(t.notices)
	return r, nil
}

// actor makes one of a trigger's actions ready.
func (s *session) actor(ctx context.Context, t *trigger, a *planner.Action, text string) (actor, error) {
	switch a.Kind {
	case planner.ActNotify:
		return &notifier{t: t, act: a}, nil
	case planner.ActStop:
		return &stopper{t: t, act: a, all: s.e.triggers, rules: s.may.Rules()}, nil
	case planner.ActWebhook:
		if err := s.may.MayPost(a.Str); err != nil {
			return nil, answer.PlacedAt(err, -1, -1, text)
		}
		return newWebhook(t, a, s.setting("webhook_format").S), nil
	}
	p, err := s.permitted(a.Query, text)
	if err != nil {
		return nil, err
	}
	bounds := s.budgets() // as they are now
	arming := s.setting("trigger_arming").S
	m, err := newShutter(ctx, t, a, p, arming, func(p *plan.Query) (*query.Query, error) {
		q, err := s.prepare(ctx, text, p)
		if err == nil {
			bounds.give(q)
		}
		return q, err
	})
	if err != nil {
		return nil, err
	}
	if m != nil {
		return m, nil
	}
	return newAcquirer(ctx, t, a, lateBySetting(arming, p), newVigil(arming), func(ctx context.Context, attached bool) (*query.Query, error) {
		p := p
		if attached {
			p = unshared(p)
		}
		q, err := s.prepare(ctx, text, p)
		if err != nil {
			return nil, err
		}
		bounds.give(q)
		err = planner.Placed(q.Refusal(), text)
		switch {
		case err != nil:
		case attached:
			err = q.StandBy(ctx)
		default:
			err = q.Load(ctx)
		}
		if err != nil {
			q.Abandon()
			return nil, err
		}
		return q, nil
	})
}

// abandon lets go of a trigger that could not be started.
func (t *trigger) abandon() {
	t.drop()
	t.when.Abandon()
	t.stream.close()
	for _, a := range t.actors {
		a.finish()
		a.wait()
	}
	close(t.over) // it may have been seen under its name
}

// Activate implements operators.Actor.
func (t *trigger) Activate(n int64, b *batch.Batch, row int) {
	a := activation{n: n, at: t.timeOf(b, row)}
	if t.tuple != nil {
		a.tuple = string(t.tuple(nil, b, row))
	}
	for _, act := range t.actors {
		act.activate(a)
	}
}

// timeOf is the event time of a tuple, ns since the epoch; of one that has none, now.
func (t *trigger) timeOf(b *batch.Batch, row int) int64 {
	if t.plan.Time >= 0 {
		if c := &b.Cols[t.plan.Time]; !c.Nulls.Get(row) {
			return c.Int[row]
		}
	}
	return clock.Now()
}

// Relent implements operators.Actor.
func (t *trigger) Relent(b *batch.Batch, row int) {
	at := t.timeOf(b, row)
	for _, act := range t.actors {
		act.relent(at)
	}
}

// Lost implements operators.Actor.
func (t *trigger) Lost(cause string, n uint64) { t.when.Tally.AddLost(cause, n) }

// losses are those of all that the trigger has run, and counts what is none.
func (t *trigger) losses() *flow.Tally {
	sum := t.ledger.total()
	for _, a := range t.actors {
		sum.AddLost("webhook not delivered", a.status().lost)
	}
	return sum
}

// run waits for the trigger's end.
func (t *trigger) run() {
	select {
	case <-t.when.Done:
	case <-t.quit:
		t.cancel(t.when)
	}
	t.endQuery(t.when)
	if err := t.when.Failure(); err != nil {
		t.fail(err)
	}
	t.ended.Store(true)
	for _, a := range t.actors {
		a.finish()
	}
	for _, a := range t.actors {
		a.wait()
	}
	t.stream.close()
	close(t.over)
	t.inbox.ended(t)
}

// cancel abandons a query of a trigger that was dropped: what is under way is not
// wanted, and not lost.
func (t *trigger) cancel(q *query.Query) {
	t.ledger.settle(q)
	q.Cancel()
	<-q.Done
}

// drop asks the trigger to end now.
func (t *trigger) drop() { t.quitOnce.Do(func() { close(t.quit) }) }

// fail notes what went wrong and tells whoever made the trigger, once.
func (t *trigger) fail(err error) {
	var e *parser.Error
	if errors.As(err, &e) {
		err = errors.New(e.Msg) // its place was told when the trigger was made
	}
	if t.errors.set(err) {
		t.tell(fmt.Sprintf("trigger %s: %v", t.plan.Name, err))
	}
}

// armed notes how long after its tuple an acquisition was armed.
func (t *trigger) armed(a activation) {
	d := clock.Now() - a.at
	for {
		longest := t.latency.Load()
		if d <= longest || t.latency.CompareAndSwap(longest, d) {
			return
		}
	}
}

// state is for sys.triggers.
func (t *trigger) state() string {
	select {
	case <-t.over:
		return "ended"
	default:
	}
	for _, a := range t.actors {
		if a.status().acting {
			return "acting"
		}
	}
	select {
	case <-t.when.Done:
		return "ending"
	default:
		return "waiting"
	}
}

// dropTrigger runs DROP TRIGGER. When it returns nothing of the trigger is
// attached.
func (s *session) dropTrigger(ctx context.Context, st *parser.Drop, text string) (wire.Result, error) {
	name := st.Name.Name
	release, err := s.e.triggers.claim(ctx, name)
	if err != nil {
		return nil, err
	}
	defer release()
	t := s.e.triggers.get(name)
	if t == nil {
		if owner, waits := s.e.kept.Owner("trigger", name); waits && s.may.Owns(owner) {
			if _, err := s.e.kept.Drop("trigger", name); err != nil {
				return nil, err
			}
			return answer.Messagef("trigger %s dropped: it waited for what it is about", name), nil
		}
		hint := answer.Nearest(name, s.triggerNames())
		if hint == "" {
			hint = "SHOW TRIGGERS lists them"
		}
		return nil, answer.Refuse(st.Name, text, hint, "there is no trigger %s", name)
	}
	if err := s.mayDrop("trigger", t.user, st.Name, text); err != nil {
		return nil, err
	}
	s.e.triggers.leave(t, nil)
	t.drop()
	<-t.over
	r := answer.Messagef("trigger %s dropped after %s", name, answer.Plural(t.op.Activations(), "activation"))
	if _, err := s.e.kept.Drop("trigger", name); err != nil {
		r.Notices = append(r.Notices, err.Error())
	}
	return r, nil
}

// notifier is NOTIFY 'text'.
type notifier struct {
	t   *trigger
	act *planner.Action
}

func (n *notifier) activate(a activation) {
	n.t.stream.give(streamRow{at: a.at, activation: a.n, action: n.act.Text, row: a.tuple})
	n.t.tell(n.t.plan.Name + ": " + n.act.Str)
}

func (n *notifier) relent(int64) {}

func (n *notifier) finish() {}

func (n *notifier) wait() {}

func (n *notifier) status() actorStatus { return actorStatus{} }

// stopper is STOP stream: it ends what any trigger acquires from that stream.
type stopper struct {
	t   *trigger
	act *planner.Action
	all *registry
	// rules: it may stop what other users' triggers acquire.
	rules bool
}

func (s *stopper) activate(a activation) {
	for _, t := range s.all.list() {
		if t.user != s.t.user && !s.rules {
			continue
		}
		for _, other := range t.actors {
			if q, ok := other.(acquiring); ok && strings.EqualFold(q.stream(), s.act.Stream) {
				q.off()
			}
		}
	}
	s.t.stream.give(streamRow{at: a.at, activation: a.n, action: s.act.Text, row: a.tuple})
}

func (s *stopper) relent(int64) {}

func (s *stopper) finish() {}

func (s *stopper) wait() {}

func (s *stopper) status() actorStatus { return actorStatus{} }

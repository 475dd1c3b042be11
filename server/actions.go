package server

import (
	"context"
	"errors"
	"slices"

	"endoscope/operators/graph"
	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/server/answer"
	"endoscope/server/query"
	"endoscope/server/trigger"
	"endoscope/server/wire"
)

// createTrigger runs CREATE TRIGGER. The acquisitions of its actions are
// prepared here, so that an activation has only to attach them.
func (s *session) createTrigger(ctx context.Context, st *parser.CreateTrigger, text string) (wire.Result, error) {
	p, err := planner.PlanTrigger(st, text, s.env())
	if err != nil {
		return nil, err
	}
	t := &trigger.Trigger{Plan: p, Text: text, Mode: "continuous", Stream: trigger.NewStream(), Ledger: trigger.NewLedger(), Host: queryHost{s.e}, Inbox: s.inbox, Notify: s.notifyUser, Owner: s.may.Name(), Quit: make(chan struct{}), Over: make(chan struct{})}
	for _, a := range plan.Leaves(p.When.Root) {
		if a.Stream == catalog.StandingStream {
			t.Standing = s.e.options.Standing.IDOf(a.Args[0].V.S)
		}
	}
	if err := trigger.RefuseSelf(p, st.Name, text); err != nil {
		return nil, err
	}
	if p.Once {
		t.Mode = "once"
	}
	if p.Tuple != nil {
		names := make([]string, len(p.Tuple))
		for i, f := range p.Tuple {
			names[i] = f.Name
		}
		t.Tuple = graph.JSON(names)
	}
	when, err := s.permitted(p.When, text)
	if err != nil {
		return nil, err
	}
	when = trigger.Prompt(when)
	if slices.ContainsFunc(p.Actions, func(a planner.Action) bool { return a.Records() }) {
		when = trigger.Unshared(when) // its programs recall
	}
	if t.When, err = s.prepare(ctx, text, when); err != nil {
		return nil, err
	}
	s.budgets().apply(t.When)
	t.Notices = append(p.Notices, t.When.Notices()...)
	t.Operator = graph.NewTrigger(p.Condition, t)
	t.When.Last = t.Operator
	for i := range p.Actions {
		a, err := s.actor(ctx, t, &p.Actions[i], text)
		if err != nil {
			t.Abandon()
			return nil, err
		}
		switch a := a.(type) {
		case *trigger.Acquirer:
			t.Notices = append(t.Notices, a.Notices...)
		case *trigger.Recaller:
			t.Notices = append(t.Notices, a.Notices...)
		}
		if late := a.Status().Late; late != "" && late != trigger.LateAsRequested {
			t.Notices = append(t.Notices, trigger.LateNotice(&p.Actions[i], late))
		}
		t.Actors = append(t.Actors, a)
	}
	release, err := s.e.triggers.Claim(ctx, p.Key)
	if err != nil {
		t.Abandon()
		return nil, err
	}
	defer release()
	old, err := s.e.triggers.Enter(t, st.Replace)
	if err != nil {
		t.Abandon()
		var e *plan.Error
		if errors.As(err, &e) {
			err = answer.Refuse(st.Name, text, e.Hint, "%s", e.Msg)
		}
		return nil, err
	}
	s.inbox.Follow(t)
	s.releaseWhenStarted(t.When)
	if err = t.BeginRecallers(ctx); err == nil {
		err = t.BeginQuery(t.When)
	}
	if err != nil {
		s.e.triggers.Leave(t, old)
		s.inbox.Unfollow(t)
		t.Abandon()
		return nil, err
	}
	s.e.triggers.Settle(t)
	go t.Run()
	if done, err := s.beginJournal(text); err == nil {
		go func() {
			<-t.Over
			done()
		}()
	}
	if old != nil {
		old.Drop()
		<-old.Over
	}
	r := answer.Messagef("trigger %s created", p.Name)
	plans := []*plan.Query{t.When.Plan}
	for i := range p.Actions {
		if q := p.Actions[i].Query; q != nil {
			plans = append(plans, q)
		}
	}
	if err := s.keep("trigger", p.Name, text, plans...); err != nil {
		t.Notices = append(t.Notices, err.Error())
	}
	r.Notices = answer.Distinct(t.Notices)
	return r, nil
}

// actor prepares one of a trigger's actions.
func (s *session) actor(ctx context.Context, t *trigger.Trigger, a *planner.Action, text string) (trigger.Actor, error) {
	switch a.Kind {
	case planner.ActNotify:
		return &trigger.Notifier{T: t, Act: a}, nil
	case planner.ActStop:
		return &trigger.Stopper{T: t, Act: a, All: s.e.triggers, Rules: s.may.Rules()}, nil
	case planner.ActWebhook:
		if err := s.may.MayPost(a.Str); err != nil {
			return nil, answer.PlacedAt(err, a.Start, a.Stop, text)
		}
		return trigger.NewWebhook(t, a, s.setting("webhook_format").S), nil
	}
	p, err := s.permitted(a.Query, text)
	if err != nil {
		return nil, err
	}
	bounds := s.budgets() // as of now
	prepare := func(ctx context.Context, p *plan.Query) (*query.Query, error) {
		q, err := s.prepare(ctx, text, p)
		if err == nil {
			bounds.apply(q)
		}
		return q, err
	}
	if a.Kind == planner.ActRecall {
		return trigger.NewRecaller(ctx, t, a, p, s.setting("recall_memory").I, prepare)
	}
	return trigger.NewAcquirer(ctx, t, a, p, s.setting("trigger_arming").S, prepare)
}

// dropTrigger runs DROP TRIGGER. When it returns, nothing of the trigger is
// attached.
func (s *session) dropTrigger(ctx context.Context, st *parser.Drop, text string) (wire.Result, error) {
	name, key := st.Name.Name, s.scope.Resolve(st.Name.Name)
	release, err := s.e.triggers.Claim(ctx, key)
	if err != nil {
		return nil, err
	}
	defer release()
	t := s.e.triggers.Get(key)
	if t == nil {
		if s.e.kept.Waits("trigger", key) {
			if _, err := s.e.kept.Drop("trigger", key); err != nil {
				return nil, err
			}
			return answer.Messagef("trigger %s dropped: it waited for what it is about", name), nil
		}
		hint := planner.DidYouMean(name, s.triggerNames())
		if hint == "" {
			hint = "SHOW TRIGGERS lists them"
		}
		return nil, answer.Refuse(st.Name, text, hint, "there is no trigger %s", name)
	}
	s.e.triggers.Leave(t, nil)
	t.Drop()
	<-t.Over
	r := answer.Messagef("trigger %s dropped after %s", name, answer.Plural(t.Operator.Activations(), "activation"))
	if _, err := s.e.kept.Drop("trigger", key); err != nil {
		r.Notices = append(r.Notices, err.Error())
	}
	return r, nil
}

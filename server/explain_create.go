package server

import (
	"context"
	"fmt"

	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/plan"
	"endoscope/probes/recall"
	"endoscope/server/answer"
	"endoscope/server/query"
	"endoscope/server/trigger"
	"endoscope/server/wire"
)

// explainTrigger runs EXPLAIN CREATE TRIGGER: the plan of its condition and of
// each action, and how the acquisitions of an action would be armed.
func (s *session) explainTrigger(ctx context.Context, st *parser.CreateTrigger, src string) (wire.Result, error) {
	t, err := planner.PlanTrigger(st, src, s.env())
	if err != nil {
		return nil, err
	}
	if err := trigger.RefuseSelf(t, st.Name, src); err != nil {
		return nil, err
	}
	rel := answer.NewTable(answer.Text("plan"))
	rel.Notices = t.Notices
	rel.AddLines(describeMode(t))
	when, err := s.permitted(t.When, src)
	if err != nil {
		return nil, err
	}
	if err := s.explainPlan(ctx, nil, rel, trigger.Prompt(when), src, "  ", nil); err != nil {
		return nil, err
	}
	for i := range t.Actions {
		a := &t.Actions[i]
		rel.AddLines(a.Text)
		if a.Kind == planner.ActWebhook {
			if err := s.may.MayPost(a.Str); err != nil {
				return nil, answer.PlacedAt(err, a.Start, a.Stop, src)
			}
			rel.AddLines(fmt.Sprintf("  posted in order; up to %d wait", trigger.WebhookQueue))
		}
		if a.Query == nil {
			continue
		}
		p, err := s.permitted(a.Query, src)
		if err != nil {
			return nil, err
		}
		arming := s.setting("trigger_arming").S
		memory := s.setting("recall_memory").I
		if a.Kind == planner.ActRecall {
			p = trigger.Kept(a, p)
		} else {
			p = trigger.Unshared(p)
		}
		err = s.explainPlan(ctx, nil, rel, p, src, "  ", func(q *query.Query) string {
			if a.Kind == planner.ActRecall {
				return describeRecall(a, memory) + "\n"
			}
			return describeArming(a, q, arming) + "\n"
		})
		if err != nil {
			return nil, err
		}
	}
	rel.Notices = answer.Distinct(rel.Notices)
	return rel, nil
}

// describeMode describes when a trigger acts.
func describeMode(t *planner.Trigger) string {
	tuples, undone := "each tuple", ""
	if p, ok := t.When.Root.(*plan.Project); ok && t.Condition >= 0 {
		if _, always := p.Exprs[t.Condition].(*plan.Const); !always {
			tuples, undone = fmt.Sprintf("each tuple with %s", p.Exprs[t.Condition]), ", undone by the first without"
		}
	}
	if t.Once {
		undone = "; what it turns on stays on"
	}
	return fmt.Sprintf("trigger %s: activated by %s%s", t.Name, tuples, undone)
}

// describeRecall describes how the rows of a RECALL are kept.
func describeRecall(a *planner.Action, memory int64) string {
	if a.Records() {
		return fmt.Sprintf("recorded in the kernel all the time: the last %d events of each of %d threads, goroutines or coroutines, in %d MiB (SET recall_memory)", recall.RingEvents, recall.RingsOf(memory), memory>>20)
	}
	return fmt.Sprintf("sampled all the time; the last %s are kept", plan.FormatDuration(int64(a.For)))
}

// describeArming describes how the query of an action would be armed.
func describeArming(a *planner.Action, q *query.Query, arming string) string {
	waits, ns := false, 0.0
	for _, f := range q.Feeds {
		if f.Info.Standby {
			waits, ns = true, max(ns, f.Info.WaitNs)
		}
	}
	if !waits {
		return "armed at once: nothing has to be attached"
	}
	if late := trigger.LateBySetting(arming, q.Plan); late != "" {
		return "armed some 10 ms after the tuple, by attaching its probes then: " + late
	}
	by := "its probes are attached before, in a query that is started then"
	if trigger.Gateable(a, q, arming) {
		by = "its probes are attached before, behind a gate that is opened"
	}
	said := fmt.Sprintf("armed at once: %s; until then a call costs about %s", by, plan.FormatDuration(int64(ns)))
	if arming == "auto" {
		said += fmt.Sprintf("\n  if calls come to take more than %.0f %% of a CPU meanwhile, armed some 10 ms after the tuple (SET trigger_arming)", 100*trigger.WaitingShare)
	}
	return said
}

// explainModel runs EXPLAIN CREATE MODEL: the plan of its query, and how its
// result becomes a model.
func (s *session) explainModel(ctx context.Context, st *parser.CreateModel, src string) (wire.Result, error) {
	p, err := s.planModel(st, src)
	if err != nil {
		return nil, err
	}
	if p, err = s.permitted(p, src); err != nil {
		return nil, err
	}
	rel := answer.NewTable(answer.Text("plan"))
	does := fmt.Sprintf("model %s: made when its query ends", st.Name.Name)
	if st.Replace {
		does += ", in place of the one of that name"
	}
	if dir := s.e.models.Dir; dir != "" {
		does += ", and kept in " + dir
	}
	rel.AddLines(does)
	return rel, s.explainPlan(ctx, nil, rel, p, src, "  ", nil)
}

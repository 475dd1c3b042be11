package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/server/answer"
	"endoscope/server/query"
)

// claim has the name of a trigger to oneself until release: who creates or drops
// one of that name meanwhile waits. A trigger that is being created may yet fail,
// and its name is then that of the one before again.
func (e *Engine) claim(ctx context.Context, name string) (release func(), err error) {
	for {
		e.mu.Lock()
		busy := e.claimed[name]
		if busy == nil {
			mine := make(chan struct{})
			e.claimed[name] = mine
			e.mu.Unlock()
			return func() {
				e.mu.Lock()
				delete(e.claimed, name)
				e.mu.Unlock()
				close(mine)
			}, nil
		}
		e.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// enterTrigger gives a trigger its name. The one that had it is returned, if it
// may be replaced.
func (e *Engine) enterTrigger(t *trigger, replace bool) (old *trigger, err error) {
	name := t.plan.Name
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errClosed
	}
	if old = e.triggers[name]; old != nil && !replace {
		return nil, plan.Errorf(-1, -1, "there is a trigger %s already", name)
	}
	// Others may have come since it was planned.
	if e.views.Taken(name) {
		return nil, plan.Errorf(-1, -1, "there is a stream %s already, and a trigger's name is a stream, too", name)
	}
	if loop := t.plan.Feeds(e.flows); loop != nil {
		return nil, loop
	}
	e.triggers[name] = t
	flow := t.plan.Flow
	if old != nil { // which may yet get its name back
		flow = flow.And(old.plan.Flow)
	}
	e.flows.Put(name, flow)
	return old, nil
}

// settleTrigger is called when a trigger that was entered has begun.
func (e *Engine) settleTrigger(t *trigger) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.triggers[t.plan.Name] == t {
		e.flows.Put(t.plan.Name, t.plan.Flow)
	}
}

// leaveTrigger takes the name of a trigger away, if it still has it, and gives it
// back to the one that had it before.
func (e *Engine) leaveTrigger(t, before *trigger) {
	name := t.plan.Name
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.triggers[name] != t:
	case before != nil:
		e.triggers[name] = before
		e.flows.Put(name, before.plan.Flow)
	default:
		delete(e.triggers, name)
		e.flows.Drop(name)
	}
}

// begin starts a query of a trigger, which is in the engine's list from before on;
// over takes it off.
func (e *Engine) begin(t *trigger, q *query.Query) error {
	err := e.add(q)
	if err != nil {
		return err
	}
	t.ledger.enter(q)
	if err = q.Start(); err != nil {
		e.over(t, q)
	}
	return err
}

func (e *Engine) over(t *trigger, q *query.Query) {
	e.remove(q)
	t.ledger.settle(q)
}

// trigger is the one of that name, or nil.
func (e *Engine) trigger(name string) *trigger {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.triggers[name]
}

// allTriggers lists the triggers by name.
func (e *Engine) allTriggers() []*trigger {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]*trigger, 0, len(e.triggers))
	for _, t := range e.triggers {
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b *trigger) int { return strings.Compare(a.plan.Name, b.plan.Name) })
	return out
}

// triggerRows are the rows of sys.triggers.
func (e *Engine) triggerRows(now int64, w whose) (out []triggerRow) {
	for _, t := range e.allTriggers() {
		if !w.has(t.user) {
			continue
		}
		row := triggerRow{at: now, t: t}
		for _, a := range t.actors {
			st := a.status()
			row.skipped += st.skipped
			if _, ok := a.(acquiring); ok && (row.arming == "" || st.late != "") {
				row.arming = cmp.Or(st.late, "at once")
			}
		}
		out = append(out, row)
	}
	return out
}

// describeTrigger lists the columns of a trigger's stream.
func describeTrigger(t *trigger) *answer.Table {
	rel := answer.NewTable(answer.Text("column"), answer.Text("type"), answer.Text("description"))
	for _, c := range catalog.Trigger.Columns {
		rel.Add(types.Str(c.Name), types.Str(c.Type.String()), types.Str(c.Doc))
	}
	if t != nil {
		rel.Notices = []string{fmt.Sprintf("%s: %s", t.plan.Name, t.text)}
	}
	return rel
}

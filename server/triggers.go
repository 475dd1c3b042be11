package server

import (
	"endoscope/planner/definitions"
	"errors"
	"sync"

	"context"
	"fmt"
	"slices"
	"strings"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/server/answer"
)

// registry is the triggers of an engine, by name. It is safe for concurrent use.
type registry struct {
	taken func(name string) bool // reports whether a stream has the name

	mu      sync.Mutex
	all     map[string]*trigger
	claimed map[string]chan struct{} // names that are reserved, until it is closed
	flows   *definitions.Triggers    // what they read and write
	closed  bool                     // no trigger begins any more
}

func newRegistry(taken func(name string) bool) *registry {
	return &registry{taken: taken, all: map[string]*trigger{}, claimed: map[string]chan struct{}{}, flows: definitions.NewTriggers()}
}

// errClosed is why no trigger begins any more.
var errClosed = errors.New("the engine is closed")

// close has no trigger begin any more.
func (r *registry) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// count is how many triggers there are.
func (r *registry) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

// claim reserves a name until release is called; others who claim it wait for that. A
// trigger that is being created may yet fail, and its name is then that of the one
// before again.
func (r *registry) claim(ctx context.Context, name string) (release func(), err error) {
	for {
		r.mu.Lock()
		busy := r.claimed[name]
		if busy == nil {
			mine := make(chan struct{})
			r.claimed[name] = mine
			r.mu.Unlock()
			return func() {
				r.mu.Lock()
				delete(r.claimed, name)
				r.mu.Unlock()
				close(mine)
			}, nil
		}
		r.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// enter gives a trigger its name. The one that had it is returned, if it may be
// replaced.
func (r *registry) enter(t *trigger, replace bool) (old *trigger, err error) {
	name := t.plan.Name
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errClosed
	}
	if old = r.all[name]; old != nil && !replace {
		return nil, plan.Errorf(-1, -1, "there is a trigger %s already", name)
	}
	// Others may have come since it was planned.
	if r.taken(name) {
		return nil, plan.Errorf(-1, -1, "there is a stream %s already, and a trigger's name is a stream, too", name)
	}
	if loop := t.plan.Feeds(r.flows); loop != nil {
		return nil, loop
	}
	r.all[name] = t
	flow := t.plan.Flow
	if old != nil { // which may yet get its name back
		flow = flow.And(old.plan.Flow)
	}
	r.flows.Put(name, flow)
	return old, nil
}

// settle is called when a trigger that was entered has begun.
func (r *registry) settle(t *trigger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all[t.plan.Name] == t {
		r.flows.Put(t.plan.Name, t.plan.Flow)
	}
}

// leave takes the name of a trigger away, if it still has it, and gives it back to the
// one that had it before.
func (r *registry) leave(t, before *trigger) {
	name := t.plan.Name
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.all[name] != t:
	case before != nil:
		r.all[name] = before
		r.flows.Put(name, before.plan.Flow)
	default:
		delete(r.all, name)
		r.flows.Drop(name)
	}
}

// get is the trigger of that name, or nil.
func (r *registry) get(name string) *trigger {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[name]
}

// list lists the triggers by name.
func (r *registry) list() []*trigger {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*trigger, 0, len(r.all))
	for _, t := range r.all {
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b *trigger) int { return strings.Compare(a.plan.Name, b.plan.Name) })
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

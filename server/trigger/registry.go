package trigger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"endoscope/planner/catalog"
	"endoscope/planner/definitions"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/server/answer"
)

// Registry holds the triggers of an engine, by qualified name. It is safe for concurrent
// use.
type Registry struct {
	taken func(key string) bool // reports whether a stream has the qualified name

	mu      sync.Mutex
	all     map[string]*Trigger
	claimed map[string]chan struct{} // reserved names; the channel is closed on release
	Flows   *definitions.Triggers    // the streams and files that triggers read and write
	closed  bool                     // no trigger may begin any more
}

func NewRegistry(taken func(key string) bool) *Registry {
	return &Registry{taken: taken, all: map[string]*Trigger{}, claimed: map[string]chan struct{}{}, Flows: definitions.NewTriggers()}
}

// ErrClosed is the error of a trigger that would begin after Close.
var ErrClosed = errors.New("the engine is closed")

// Close prevents further triggers from beginning.
func (r *Registry) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// Count returns the number of triggers.
func (r *Registry) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

// Claim reserves a qualified name until release is called; other claims of it wait. A
// trigger that is being created may still fail, and its name then returns to
// the trigger that it would have replaced.
func (r *Registry) Claim(ctx context.Context, name string) (release func(), err error) {
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

// Enter registers a trigger under its name. It returns the trigger that had the
// name, if that may be replaced.
func (r *Registry) Enter(t *Trigger, replace bool) (old *Trigger, err error) {
	name, key := t.Plan.Name, t.Plan.Key
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	if old = r.all[key]; old != nil && !replace {
		return nil, plan.Errorf(-1, -1, "there is a trigger %s already", name)
	}
	// Streams may have been created since it was planned.
	if r.taken(key) {
		return nil, plan.Errorf(-1, -1, "there is a stream %s already, and a trigger's name is also a stream", name)
	}
	own := definitions.Scope{Owner: t.Owner, Sees: func(string) bool { return false }}
	if loop := t.Plan.Feeds(r.Flows, own); loop != nil {
		return nil, loop
	}
	r.all[key] = t
	flow := t.Plan.Flow
	if old != nil { // it may get its name back
		flow = flow.And(old.Plan.Flow)
	}
	r.Flows.Put(key, flow)
	return old, nil
}

// Settle is called when a registered trigger has begun.
func (r *Registry) Settle(t *Trigger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all[t.Plan.Key] == t {
		r.Flows.Put(t.Plan.Key, t.Plan.Flow)
	}
}

// Leave removes a trigger, if it still has its name, and returns the name to
// the trigger that had it before.
func (r *Registry) Leave(t, before *Trigger) {
	key := t.Plan.Key
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.all[key] != t:
	case before != nil:
		r.all[key] = before
		r.Flows.Put(key, before.Plan.Flow)
	default:
		delete(r.all, key)
		r.Flows.Drop(key)
	}
}

// Get returns the trigger of a qualified name, or nil.
func (r *Registry) Get(key string) *Trigger {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[key]
}

// List lists the triggers by name and owner.
func (r *Registry) List() []*Trigger {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*Trigger, 0, len(r.all))
	for _, t := range r.all {
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b *Trigger) int {
		return cmp.Or(strings.Compare(a.Plan.Name, b.Plan.Name), strings.Compare(a.Owner, b.Owner))
	})
	return out
}

// Describe lists the columns of a trigger's stream.
func Describe(t *Trigger) *answer.Table {
	rel := answer.NewTable(answer.Text("column"), answer.Text("type"), answer.Text("description"))
	for _, c := range catalog.Trigger.Columns {
		rel.Add(types.Str(c.Name), types.Str(c.Type.String()), types.Str(c.Doc))
	}
	if t != nil {
		rel.Notices = []string{fmt.Sprintf("%s: %s", t.Plan.Name, t.Text)}
	}
	return rel
}

package export

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync"
)

// Registry holds the exports of an engine, by qualified name. It is safe for concurrent use.
type Registry struct {
	mu     sync.Mutex
	all    map[string]*Export
	closed bool // no export may begin any more
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry { return &Registry{all: map[string]*Export{}} }

// ErrClosed is the error of an export that would begin after Close.
var ErrClosed = errors.New("the engine is closed")

// Put registers an export under its name, which the caller has reserved, and returns the
// one that had it before.
func (r *Registry) Put(e *Export) (old *Export, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	old = r.all[e.Plan.Key]
	r.all[e.Plan.Key] = e
	return old, nil
}

// Remove drops an export, waits until nothing of it is attached, and removes it if it still
// has its name.
func (r *Registry) Remove(e *Export) {
	e.Drop()
	<-e.Over
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all[e.Plan.Key] == e {
		delete(r.all, e.Plan.Key)
	}
}

// Get returns the export of a qualified name, or nil.
func (r *Registry) Get(key string) *Export {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[key]
}

// Names lists the qualified names.
func (r *Registry) Names() (names []string) {
	for _, e := range r.List() {
		names = append(names, e.Plan.Key)
	}
	return names
}

// List lists the exports by name and owner.
func (r *Registry) List() []*Export {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*Export, 0, len(r.all))
	for _, e := range r.all {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b *Export) int {
		return cmp.Or(strings.Compare(a.Plan.Name, b.Plan.Name), strings.Compare(a.Owner, b.Owner))
	})
	return out
}

// Close ends all exports, and prevents further ones from beginning.
func (r *Registry) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.RemoveAll(func(*Export) bool { return true })
}

// RemoveAll removes the exports that one function selects, and returns their names.
func (r *Registry) RemoveAll(selected func(*Export) bool) (keys []string) {
	all := slices.DeleteFunc(r.List(), func(e *Export) bool { return !selected(e) })
	for _, e := range all {
		e.Drop()
	}
	for _, e := range all {
		r.Remove(e)
		keys = append(keys, e.Plan.Key)
	}
	return keys
}

package catalog

import (
	"maps"
	"slices"
	"sync"

	"endoscope/parser"
)

// Views are the streams that users have defined by CREATE STREAM, as one of them
// sees them. Using one inlines its query. It is safe for concurrent use.
type Views struct {
	all  *views
	sees func(owner string) bool // nil: those of everybody
}

type views struct {
	mu sync.RWMutex
	m  map[string]view
}

type view struct {
	definition *parser.CreateStream
	owner      string
}

// NewViews returns an empty set.
func NewViews() *Views { return &Views{all: &views{m: map[string]view{}}} }

// As are the same streams as somebody sees them who sees those of some owners: a
// definition can say what is nobody else's business, and for who must not know it
// there is no such stream.
func (v *Views) As(sees func(owner string) bool) *Views { return &Views{v.all, sees} }

// get is the stream of a name, if it is to be seen. v.all.mu is held.
func (v *Views) get(name string) (view, bool) {
	d, ok := v.all.m[name]
	if !ok || v.sees != nil && !v.sees(d.owner) {
		return view{}, false
	}
	return d, true
}

// Get returns the definition of name, or nil.
func (v *Views) Get(name string) *parser.CreateStream {
	v.all.mu.RLock()
	defer v.all.mu.RUnlock()
	d, _ := v.get(name)
	return d.definition
}

// Taken reports whether somebody has a stream of that name, to be seen or not.
func (v *Views) Taken(name string) bool {
	v.all.mu.RLock()
	defer v.all.mu.RUnlock()
	_, ok := v.all.m[name]
	return ok
}

// Owner is who has defined a stream that is to be seen; ok is false if there is none.
func (v *Views) Owner(name string) (owner string, ok bool) {
	v.all.mu.RLock()
	defer v.all.mu.RUnlock()
	d, ok := v.get(name)
	return d.owner, ok
}

// Put defines a stream, or defines one anew that is to be seen if replace is set.
// It reports whether it did: names are everybody's.
func (v *Views) Put(c *parser.CreateStream, owner string, replace bool) bool {
	v.all.mu.Lock()
	defer v.all.mu.Unlock()
	if _, taken := v.all.m[c.Name.Name]; taken {
		if _, seen := v.get(c.Name.Name); !seen || !replace {
			return false
		}
	}
	v.all.m[c.Name.Name] = view{c, owner}
	return true
}

// Drop removes a definition that is to be seen, and reports whether there was one.
func (v *Views) Drop(name string) bool {
	v.all.mu.Lock()
	defer v.all.mu.Unlock()
	_, ok := v.get(name)
	if ok {
		delete(v.all.m, name)
	}
	return ok
}

// Names lists the streams that are to be seen, sorted.
func (v *Views) Names() []string {
	v.all.mu.RLock()
	defer v.all.mu.RUnlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(v.all.m)), func(name string) bool {
		_, ok := v.get(name)
		return !ok
	})
}

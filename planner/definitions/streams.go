package definitions

import (
	"maps"
	"slices"
	"sync"

	"endoscope/parser"
)

// Views are the streams defined by CREATE STREAM, as one user sees them. A query
// that uses one has its definition inlined. It is safe for concurrent use.
type Views struct {
	all  *views
	sees func(owner string) bool // nil: every owner's
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

// As returns the same set restricted to the owners that sees reports. A definition
// may hold private data, so for other users the stream does not exist.
func (v *Views) As(sees func(owner string) bool) *Views { return &Views{v.all, sees} }

// get returns a visible stream. The caller holds v.all.mu.
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

// Taken reports whether the name is in use, by a visible stream or another.
func (v *Views) Taken(name string) bool {
	v.all.mu.RLock()
	defer v.all.mu.RUnlock()
	_, ok := v.all.m[name]
	return ok
}

// Owner returns the owner of a visible stream; ok is false if there is none.
func (v *Views) Owner(name string) (owner string, ok bool) {
	v.all.mu.RLock()
	defer v.all.mu.RUnlock()
	d, ok := v.get(name)
	return d.owner, ok
}

// Put adds a definition, or replaces a visible one if replace is set. It reports
// whether it did: all users share one set of names.
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

// Drop removes a visible definition, and reports whether there was one.
func (v *Views) Drop(name string) bool {
	v.all.mu.Lock()
	defer v.all.mu.Unlock()
	_, ok := v.get(name)
	if ok {
		delete(v.all.m, name)
	}
	return ok
}

// Names lists the visible streams, sorted.
func (v *Views) Names() []string {
	v.all.mu.RLock()
	defer v.all.mu.RUnlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(v.all.m)), func(name string) bool {
		_, ok := v.get(name)
		return !ok
	})
}

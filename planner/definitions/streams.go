package definitions

import (
	"maps"
	"slices"
	"sync"

	"endoscope/parser"
)

// Views are the streams defined by CREATE STREAM, by qualified name. A query that uses
// one has its definition inlined. It is safe for concurrent use.
type Views struct {
	mu sync.RWMutex
	m  map[string]*parser.CreateStream
}

// NewViews returns an empty set.
func NewViews() *Views { return &Views{m: map[string]*parser.CreateStream{}} }

// Get returns the definition of a qualified name, or nil.
func (v *Views) Get(qualified string) *parser.CreateStream {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.m[qualified]
}

// Put adds a definition, or replaces one if replace is set. It reports whether it did.
func (v *Views) Put(c *parser.CreateStream, owner string, replace bool) bool {
	name := Qualify(owner, c.Name.Name)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.m[name] != nil && !replace {
		return false
	}
	v.m[name] = c
	return true
}

// Drop removes a definition, and reports whether there was one.
func (v *Views) Drop(qualified string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	defer delete(v.m, qualified)
	return v.m[qualified] != nil
}

// Names lists the qualified names, sorted.
func (v *Views) Names() []string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.Sorted(maps.Keys(v.m))
}

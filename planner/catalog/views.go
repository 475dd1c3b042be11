package catalog

import (
	"sort"
	"sync"

	"endoscope/parser"
)

// Views are the streams that users have defined by CREATE STREAM. Using one
// inlines its query. It is safe for concurrent use.
type Views struct {
	mu sync.RWMutex
	m  map[string]*parser.CreateStream
}

// NewViews returns an empty set.
func NewViews() *Views { return &Views{m: map[string]*parser.CreateStream{}} }

// Get returns the definition of name, or nil.
func (v *Views) Get(name string) *parser.CreateStream {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.m[name]
}

// Put defines or redefines a stream.
func (v *Views) Put(c *parser.CreateStream) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.m[c.Name.Name] = c
}

// Drop removes a definition and reports whether there was one.
func (v *Views) Drop(name string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, ok := v.m[name]
	delete(v.m, name)
	return ok
}

// Names lists the definitions, sorted.
func (v *Views) Names() []string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	names := make([]string, 0, len(v.m))
	for n := range v.m {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

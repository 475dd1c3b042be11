package definitions

import (
	"maps"
	"slices"
	"sync"

	"endoscope/parser"
)

type (
	// Views are the streams defined by CREATE STREAM. A query that uses one has its definition
	// inlined.
	Views = Set[parser.CreateStream]
	// Contexts are defined by CREATE CONTEXT.
	Contexts = Set[parser.CreateContext]
)

// Set holds definitions by qualified name. It is safe for concurrent use; nil is empty.
type Set[T any] struct {
	mu sync.RWMutex
	m  map[string]*T
}

// NewViews returns an empty set.
func NewViews() *Views { return &Views{m: map[string]*parser.CreateStream{}} }

// NewContexts returns an empty set.
func NewContexts() *Contexts { return &Contexts{m: map[string]*parser.CreateContext{}} }

// Get returns the definition of a qualified name, or nil.
func (s *Set[T]) Get(qualified string) *T {
	if s == nil {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.m[qualified]
}

// Put adds a definition, or replaces one if replace is set. It reports whether it did.
func (s *Set[T]) Put(c *T, qualified string, replace bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m[qualified] != nil && !replace {
		return false
	}
	s.m[qualified] = c
	return true
}

// Drop removes a definition, and reports whether there was one.
func (s *Set[T]) Drop(qualified string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer delete(s.m, qualified)
	return s.m[qualified] != nil
}

// Names lists the qualified names, sorted.
func (s *Set[T]) Names() []string {
	if s == nil {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.m))
}

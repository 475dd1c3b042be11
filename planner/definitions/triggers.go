package definitions

import (
	"maps"
	"slices"
	"sync"
)

// Flow is what a trigger reads and writes that other triggers may write and read:
// trigger streams, by qualified name, and files, by absolute path.
type Flow struct {
	Streams []string
	Files   []string
	Writes  []string
}

// And returns the union of two flows.
func (f Flow) And(g Flow) Flow {
	return Flow{slices.Concat(f.Streams, g.Streams), slices.Concat(f.Files, g.Files), slices.Concat(f.Writes, g.Writes)}
}

// Triggers is the set of existing triggers with their flows, by qualified name. It is
// safe for concurrent use; a nil set is empty.
type Triggers struct {
	mu sync.RWMutex
	m  map[string]Flow
}

// NewTriggers returns an empty set.
func NewTriggers() *Triggers { return &Triggers{m: map[string]Flow{}} }

// Has reports whether the trigger exists.
func (t *Triggers) Has(name string) bool {
	if t == nil {
		return false
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	_, ok := t.m[name]
	return ok
}

// Put adds or replaces a trigger.
func (t *Triggers) Put(name string, f Flow) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.m[name] = f
}

// Drop removes a trigger.
func (t *Triggers) Drop(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.m, name)
}

// Names lists the triggers, sorted.
func (t *Triggers) Names() []string {
	if t == nil {
		return nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Sorted(maps.Keys(t.m))
}

// Feeds returns the cycle by which a trigger with flow f would feed itself: the
// trigger that reads its output, the trigger that reads that one's, and so on to
// name itself. nil means that there is no cycle.
func (t *Triggers) Feeds(name string, f Flow) []string {
	all := map[string]Flow{name: f}
	if t != nil {
		t.mu.RLock()
		for n, other := range t.m {
			if n != name {
				all[n] = other
			}
		}
		t.mu.RUnlock()
	}
	names := slices.Sorted(maps.Keys(all))
	seen := map[string]bool{}
	var walk func(from string) []string
	walk = func(from string) []string {
		for _, to := range names {
			if !all[to].reads(from, all[from]) {
				continue
			}
			if to == name {
				return []string{name}
			}
			if !seen[to] {
				seen[to] = true
				if way := walk(to); way != nil {
					return append([]string{to}, way...)
				}
			}
		}
		return nil
	}
	return walk(name)
}

// reads reports whether a trigger with flow f reads the output of other.
func (f Flow) reads(name string, other Flow) bool {
	return slices.Contains(f.Streams, name) ||
		slices.ContainsFunc(f.Files, func(path string) bool { return slices.Contains(other.Writes, path) })
}

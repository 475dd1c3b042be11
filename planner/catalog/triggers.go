package catalog

import (
	"maps"
	"slices"
	"sync"
)

// TriggerStream is what plans call the acquisition of a trigger's stream; its
// argument is the trigger's name.
const TriggerStream = "trigger"

// TriggerColumns are the columns of a trigger's stream.
var TriggerColumns = columns([]Column{
	{"timestamp", tT, "", "when it happened: of the tuple, or of what an action acquired"},
	{"activation", tI, "", "number of the activation that began the action, from 1"},
	{"action", tS, "", "the action, as it is printed"},
	{"row", tS, "", "what the action acquired, as JSON; else the tuple that satisfied the condition"},
})

// Flow is what a trigger reads and writes of what others write and read: the
// streams of triggers, by name, and files, by absolute path.
type Flow struct {
	Streams []string
	Files   []string
	Writes  []string
}

// And is what either reads and writes.
func (f Flow) And(g Flow) Flow {
	return Flow{slices.Concat(f.Streams, g.Streams), slices.Concat(f.Files, g.Files), slices.Concat(f.Writes, g.Writes)}
}

// Triggers are the triggers there are. It is safe for concurrent use; a nil one
// is empty.
type Triggers struct {
	mu sync.RWMutex
	m  map[string]Flow
}

// NewTriggers returns an empty set.
func NewTriggers() *Triggers { return &Triggers{m: map[string]Flow{}} }

// Has reports whether there is a trigger of that name.
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

// Feeds returns the way by which a trigger, were its flow f, would feed itself:
// the trigger that reads what it gives, the one that reads what that gives, and
// so on to name itself. nil: it would not.
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

// reads reports whether a trigger with flow f reads what another gives.
func (f Flow) reads(name string, other Flow) bool {
	return slices.Contains(f.Streams, name) ||
		slices.ContainsFunc(f.Files, func(path string) bool { return slices.Contains(other.Writes, path) })
}

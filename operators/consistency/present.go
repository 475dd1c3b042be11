package consistency

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Present is the current state derived from the reported events. Nothing is derived from
// unreported events, so with consistent reports nothing in it is false. Its memory is
// proportional to the live entities.
type Present interface {
	// Apply updates the state by an event.
	Apply(Event)
	// String returns the state as text, one line per item.
	String() string
	// Picture returns the state as a graph; an arrow's end need not be a node.
	Picture() (nodes []Node, arrows []Arrow)
	// Lines returns the lines of String as values.
	Lines() []Line
	// Size returns the approximate memory in bytes.
	Size() int64
}

// Line is one line of the state.
type Line struct {
	Depth int    // nesting: a line is inside the previous line of smaller depth
	Text  string // the line without its indentation
}

// Node is a node of a picture.
type Node struct{ ID, Label string }

// Arrow leads from one node to another.
type Arrow struct {
	From, To, Label string
	Alarm           bool // marks an error state, such as a deadlock
}

func text(lines []Line) string {
	var b strings.Builder
	for i, l := range lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(strings.Repeat("  ", l.Depth))
		b.WriteString(l.Text)
	}
	return b.String()
}

// entryBytes is the approximate size of a map entry with its identity.
const entryBytes = 160

// Waits holds which threads wait for which lock, and which hold it.
type Waits struct {
	holders map[string][]string        // threads by lock, once per acquisition
	holds   map[string]int             // the inverse: number of acquisitions by thread
	waits   map[string]map[string]bool // locks by thread
	names   map[string]string          // of threads that hold or wait
}

// NewWaits returns a state without holders and waiters.
func NewWaits() *Waits {
	return &Waits{holders: map[string][]string{}, holds: map[string]int{}, waits: map[string]map[string]bool{}, names: map[string]string{}}
}

// Apply implements [Present]. Name is the name of a THREAD, or of the thread on which the
// event happened.
func (w *Waits) Apply(e Event) {
	switch {
	case e.Category == Thread && e.Kind.Ends():
		for lock := range w.holders {
			w.drop(lock, e.Entity, true)
		}
		delete(w.waits, e.Entity)
		delete(w.names, e.Entity)
		return
	case e.Category != None || e.Entity == Unknown || e.Thread == Unknown:
		return
	}
	switch e.Kind {
	case Acquire:
		w.holders[e.Entity] = append(w.holders[e.Entity], e.Thread)
		w.holds[e.Thread]++
	case Release:
		w.drop(e.Entity, e.Thread, false)
	case BeginWait:
		if w.waits[e.Thread] == nil {
			w.waits[e.Thread] = map[string]bool{}
		}
		w.waits[e.Thread][e.Entity] = true
	case EndWait:
		w.stop(e.Entity, e.Thread)
	case Ended: // the thread's use of the lock is no longer known
		w.drop(e.Entity, e.Thread, true)
		w.stop(e.Entity, e.Thread)
	}
	switch {
	case w.holds[e.Thread] == 0 && len(w.waits[e.Thread]) == 0:
		delete(w.names, e.Thread)
	case e.Name != "":
		w.names[e.Thread] = e.Name
	}
}

func (w *Waits) drop(lock, thread string, all bool) {
	held := w.holders[lock]
	for i := len(held) - 1; i >= 0; i-- {
		if held[i] == thread {
			held = slices.Delete(held, i, i+1)
			if w.holds[thread]--; w.holds[thread] == 0 {
				delete(w.holds, thread)
			}
			if !all {
				break
			}
		}
	}
	if w.holders[lock] = held; len(held) == 0 {
		delete(w.holders, lock)
	}
}

func (w *Waits) stop(lock, thread string) {
	delete(w.waits[thread], lock)
	if len(w.waits[thread]) == 0 {
		delete(w.waits, thread)
	}
}

// blockers returns the threads that a thread waits for.
func (w *Waits) blockers(thread string) []string {
	var out []string
	for lock := range w.waits[thread] {
		for _, holder := range w.holders[lock] {
			if !slices.Contains(out, holder) {
				out = append(out, holder)
			}
		}
	}
	slices.Sort(out)
	return out
}

// Deadlocks returns the sets of threads each of which waits for another of the set, in the
// order of their identities. A thread that waits for a set is not in it.
func (w *Waits) Deadlocks() [][]string {
	var out [][]string
	in := map[string]bool{}
	for _, thread := range slices.Sorted(maps.Keys(w.waits)) {
		if in[thread] {
			continue
		}
		reach := w.reach(thread)
		if !reach[thread] {
			continue
		}
		var set []string
		for _, other := range slices.Sorted(maps.Keys(reach)) {
			if w.reach(other)[thread] {
				set = append(set, other)
				in[other] = true
			}
		}
		out = append(out, set)
	}
	return out
}

// reach returns the threads that a thread waits for, directly or indirectly.
func (w *Waits) reach(thread string) map[string]bool {
	seen := map[string]bool{}
	todo := w.blockers(thread)
	for len(todo) > 0 {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !seen[next] {
			seen[next] = true
			todo = append(todo, w.blockers(next)...)
		}
	}
	return seen
}

func (w *Waits) name(thread string) string {
	if n := w.names[thread]; n != "" {
		return n + " " + thread
	}
	return thread
}

// Lines implements [Present]: waits by waiter, then deadlocks.
func (w *Waits) Lines() []Line {
	var out []Line
	for _, thread := range slices.Sorted(maps.Keys(w.waits)) {
		for _, lock := range slices.Sorted(maps.Keys(w.waits[thread])) {
			l := fmt.Sprintf("%s waits for %s", w.name(thread), lock)
			var owners []string
			for _, holder := range w.holders[lock] {
				if n := w.name(holder); !slices.Contains(owners, n) {
					owners = append(owners, n)
				}
			}
			if len(owners) > 0 {
				l += ", which " + strings.Join(owners, ", ") + " has"
			}
			out = append(out, Line{Text: l})
		}
	}
	for _, set := range w.Deadlocks() {
		names := make([]string, len(set))
		for i, thread := range set {
			names[i] = w.name(thread)
		}
		out = append(out, Line{Text: "deadlock: " + strings.Join(names, ", ")})
	}
	return out
}

func (w *Waits) String() string { return text(w.Lines()) }

// Picture implements [Present]: an arrow from each waiter to each thread it waits for.
func (w *Waits) Picture() (_ []Node, arrows []Arrow) {
	dead := map[string]bool{}
	for _, set := range w.Deadlocks() {
		for _, thread := range set {
			dead[thread] = true
		}
	}
	for _, thread := range slices.Sorted(maps.Keys(w.waits)) {
		for _, lock := range slices.Sorted(maps.Keys(w.waits[thread])) {
			for _, holder := range w.holders[lock] {
				arrows = append(arrows, Arrow{w.name(thread), w.name(holder), lock, dead[thread] && dead[holder]})
			}
		}
	}
	return nil, arrows
}

// Size implements [Present].
func (w *Waits) Size() int64 {
	return int64(len(w.holders)+len(w.holds)+len(w.waits)+len(w.names)) * entryBytes
}

// Objects holds the live objects by type.
type Objects struct {
	live map[string]living
	now  int64
}

type living struct {
	class string
	since int64
}

// NewObjects returns an empty state.
func NewObjects() *Objects { return &Objects{live: map[string]living{}} }

// Apply implements [Present].
func (o *Objects) Apply(e Event) {
	o.now = max(o.now, e.Time)
	switch {
	case e.Kind == Move && e.Category == None:
		if x, ok := o.live[e.Entity]; ok {
			delete(o.live, e.Entity)
			o.live[e.Other] = x
		}
	case e.Category != Object || e.Entity == Unknown:
	case e.Kind == Create:
		o.live[e.Entity] = living{e.TypeName, e.Time}
	case e.Kind.Ends():
		delete(o.live, e.Entity)
	}
}

// Lines implements [Present]: one line per type, most objects first, with the ages of the
// youngest and the oldest object.
func (o *Objects) Lines() []Line {
	type kind struct {
		class          string
		n              int
		oldest, newest int64
	}
	kinds := map[string]*kind{}
	for _, x := range o.live {
		k := kinds[x.class]
		if k == nil {
			k = &kind{class: x.class, oldest: x.since, newest: x.since}
			kinds[x.class] = k
		}
		k.n++
		k.oldest, k.newest = min(k.oldest, x.since), max(k.newest, x.since)
	}
	sorted := slices.SortedFunc(maps.Values(kinds), func(a, b *kind) int {
		return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.class, b.class))
	})
	out := make([]Line, 0, len(sorted))
	for _, k := range sorted {
		age := func(since int64) time.Duration { return time.Duration(o.now - since).Round(time.Millisecond) }
		out = append(out, Line{Text: fmt.Sprintf("%d %s, %v to %v old", k.n, cmp.Or(k.class, "of unknown type"), age(k.newest), age(k.oldest))})
	}
	return out
}

func (o *Objects) String() string { return text(o.Lines()) }

// Picture implements [Present]: one node per type.
func (o *Objects) Picture() (nodes []Node, _ []Arrow) {
	for _, l := range o.Lines() {
		nodes = append(nodes, Node{l.Text, l.Text})
	}
	return nodes, nil
}

// Size implements [Present].
func (o *Objects) Size() int64 { return int64(len(o.live)) * entryBytes }

package rules

import (
	"fmt"
	"maps"
	"slices"

	"endoscope/operators/consistency"
)

// Violation is a rule that a report breaks.
type Violation struct {
	Rule   int // 1 to 5, as in the package's documentation; 0: the report is not from this stream
	Report int // index; len(reports): at the end
	Why    string
}

// String returns the violation as one line.
func (v Violation) String() string {
	return fmt.Sprintf("rule %d, report %d: %s", v.Rule, v.Report, v.Why)
}

// Check compares reports with the rules, given the complete stream of events. The Seq of a
// report is the number of its event in full, from 1. Check does not depend on how keepers
// work. A reported identity Unknown is not checked.
func Check(full []consistency.Event, reports []consistency.Report) []Violation {
	c := checker{history: readHistory(full), full: full, live: map[key]*life{}, locks: map[[2]string]hold{}, seen: map[uint64]bool{}}
	for i, r := range reports {
		c.at = i
		c.report(r)
	}
	c.at = len(reports)
	c.finish()
	return c.found
}

// SameEntity returns whether two events of a stream are about the same entity, which is not
// a question of their identities: these may be reused. Events count from 1.
func SameEntity(full []consistency.Event) func(a, b uint64) bool {
	means := readHistory(full).means
	return func(a, b uint64) bool { return means[a-1].entity == means[b-1].entity }
}

type key struct {
	category consistency.Category
	id       string
}

// life is one entity from its creation to its end; an identity refers to a life only during
// that time.
type life struct {
	category               consistency.Category
	id                     string // identity at creation
	now, name              string // identity at the end; name of a type
	loaded, over           uint64 // by which events; 0: none
	reported, loadReported bool   // its creation was reported; its load was
	ended                  bool   // its end was reported
}

// meaning maps the identities of one event to lives.
type meaning struct {
	entity, parent, other, thread, class *life
	// held are the locks that end with the entity, by lock and thread, with the
	// acquisitions and the wait.
	held map[[2]string]hold
}

// history is the meaning of the identities in each event of a stream, and the final lock
// state per thread.
type history struct {
	means []meaning
	lives []*life
	held  map[[2]string]hold
}

// readHistory resolves the identities of a complete stream.
func readHistory(full []consistency.Event) history {
	h := history{held: map[[2]string]hold{}}
	now := map[key]*life{}
	names := map[string]*life{}
	stacks := map[string][]*life{}
	find := func(c consistency.Category, id string) *life {
		if id == "" {
			return nil
		}
		return now[key{c, id}]
	}
	anyOf := func(id string) *life {
		for _, c := range []consistency.Category{consistency.Object, consistency.Type, consistency.Thread, consistency.Invocation} {
			if l := find(c, id); l != nil {
				return l
			}
		}
		return nil
	}
	var dropped map[[2]string]hold // of the current event
	end := func(l *life, by uint64) {
		if l.over != 0 {
			return
		}
		l.over = by
		owns := (l.category == consistency.Object || l.category == consistency.Type) && anyOf(l.now) == l
		if l.category != consistency.Invocation {
			for pair := range h.held {
				if owns && pair[0] == l.now || l.category == consistency.Thread && pair[1] == l.now {
					dropped[pair] = h.held[pair]
					delete(h.held, pair)
				}
			}
		}
		if k := (key{l.category, l.now}); now[k] == l {
			delete(now, k)
		}
		if names[l.name] == l {
			delete(names, l.name)
		}
	}
	for i, e := range full {
		seq := uint64(i + 1)
		dropped = map[[2]string]hold{}
		m := meaning{thread: find(consistency.Thread, e.Thread), other: anyOf(e.Other)}
		if e.Kind == consistency.Move {
			m.entity = find(consistency.Object, e.Entity)
		} else if e.Category != consistency.None {
			m.entity, m.parent = find(e.Category, e.Entity), find(e.Category, e.Parent)
		} else if e.Kind == consistency.Suspend || e.Kind == consistency.Resume {
			m.entity = find(consistency.Thread, e.Entity)
		} else {
			m.entity = anyOf(e.Entity)
		}
		if e.Category != consistency.Type && e.Category != consistency.Thread {
			m.class = names[e.TypeName]
		}
		stack := stacks[e.Thread]
		for len(stack) > 0 && stack[len(stack)-1].over != 0 {
			stack = stack[:len(stack)-1]
		}
		switch {
		case endsLock(&e):
			delete(h.held, [2]string{e.Entity, e.Thread})
		case e.Kind.Creates():
			if m.entity != nil {
				if e.Category == consistency.Invocation {
					stack = endAbove(stack, m.entity, seq, end)
				}
				end(m.entity, seq)
			}
			if e.Category == consistency.Invocation && e.Parent == "" && len(stack) > 0 {
				m.parent = stack[len(stack)-1]
				if m.parent.over != 0 {
					m.parent = nil
				}
			}
			l := &life{category: e.Category, id: e.Entity, now: e.Entity, name: e.Name}
			h.lives = append(h.lives, l)
			now[key{e.Category, e.Entity}] = l
			if e.Category == consistency.Type && e.Name != "" {
				names[e.Name] = l
			}
			if e.Category == consistency.Invocation {
				stack = append(stack, l)
			}
			m.entity = l
		case e.Kind.Ends() && m.entity != nil:
			if e.Category == consistency.Invocation {
				stack = endAbove(stack, m.entity, seq, end)
			}
			if e.Category == consistency.Thread {
				for _, l := range stacks[e.Entity] {
					end(l, seq)
				}
				delete(stacks, e.Entity)
			}
			end(m.entity, seq)
		case e.Kind.Ends() && e.Category == consistency.Thread:
			for _, l := range stacks[e.Entity] {
				end(l, seq)
			}
			delete(stacks, e.Entity)
			for pair := range h.held {
				if pair[1] == e.Entity {
					dropped[pair] = h.held[pair]
					delete(h.held, pair)
				}
			}
		case e.Kind == consistency.Load && m.entity != nil:
			m.entity.loaded = seq
		case e.Kind == consistency.Move && m.entity != nil:
			if old := find(m.entity.category, e.Other); old != nil && old != m.entity {
				end(old, seq)
			}
			delete(now, key{m.entity.category, e.Entity})
			now[key{m.entity.category, e.Other}] = m.entity
			m.entity.now = e.Other
			renameLocks(h.held, e.Entity, e.Other)
			m.other = nil
		case synchronises(e.Kind):
			pair := [2]string{e.Entity, e.Thread}
			if next, ok := h.held[pair].follow(e.Kind, seq); ok {
				h.held[pair] = next
			}
		}
		if e.Category != consistency.Thread || !e.Kind.Ends() {
			stacks[e.Thread] = stack
		}
		m.held = dropped
		h.means = append(h.means, m)
	}
	return h
}

// endAbove ends the invocations on a stack above l.
func endAbove(stack []*life, l *life, seq uint64, end func(*life, uint64)) []*life {
	for i, at := range stack {
		if at == l {
			for j := len(stack) - 1; j > i; j-- {
				end(stack[j], seq)
			}
			return stack[:i]
		}
	}
	return stack
}

// hold is what a thread does with a lock: the events by which it holds it and waits for it.
type hold struct {
	acquired []uint64
	waits    uint64 // 0: not waiting
}

// follow returns hold after one more event; false if the event is not possible there.
func (h hold) follow(k consistency.Kind, seq uint64) (hold, bool) {
	n := len(h.acquired)
	switch {
	case k == consistency.Acquire && h.waits == 0:
		h.acquired = append(h.acquired[:n:n], seq)
	case k == consistency.Release && h.waits == 0 && n > 0:
		h.acquired = h.acquired[:n-1]
	case k == consistency.BeginWait && h.waits == 0:
		h.waits = seq
	case k == consistency.EndWait && h.waits != 0:
		h.waits = 0
	default:
		return h, false
	}
	return h, true
}

// checker is the state that a reader derives from the reports.
type checker struct {
	history
	full  []consistency.Event
	live  map[key]*life // by identity, as reported
	locks map[[2]string]hold
	seen  map[uint64]bool
	at    int
	time  int64
	found []Violation
}

func (c *checker) violated(rule int, format string, args ...any) {
	c.found = append(c.found, Violation{rule, c.at, fmt.Sprintf(format, args...)})
}

func (c *checker) report(r consistency.Report) {
	if r.At < c.time || r.Time > r.At {
		c.violated(0, "it is out of order")
	}
	c.time = r.At
	if r.Entity == consistency.Unknown {
		return
	}
	var m meaning
	switch {
	case r.Kind == consistency.Ended && r.Category == consistency.None: // of a thread's use of a lock
		if r.Seq > 0 {
			if r.Seq > uint64(len(c.full)) || !endsLock(&c.full[r.Seq-1]) {
				c.violated(0, "%v of lock %s did not happen", r.Kind, r.Entity)
				return
			}
			if c.seen[r.Seq] {
				c.violated(0, "%v of lock %s was reported before", r.Kind, r.Entity)
			}
			c.seen[r.Seq] = true
			c.known(2, "it is about", c.means[r.Seq-1].entity, r.Entity, r.Seq)
		}
		delete(c.locks, [2]string{r.Entity, r.Thread})
		return
	case r.Seq == 0 && r.Kind == consistency.Ended:
		m.entity = c.live[key{r.Category, r.Entity}]
	case r.Seq == 0 || r.Seq > uint64(len(c.full)) || c.full[r.Seq-1].Kind != r.Kind || c.full[r.Seq-1].Category != r.Category:
		c.violated(0, "%v %v %s did not happen", r.Category, r.Kind, r.Entity)
		return
	case c.seen[r.Seq]:
		c.violated(0, "%v %v %s was reported before", r.Category, r.Kind, r.Entity)
		return
	default:
		c.seen[r.Seq] = true
		m = c.means[r.Seq-1]
	}
	switch {
	case r.Kind.Creates():
		c.creation(r, m)
	case r.Kind.Ends():
		c.end(r, m)
	case r.Category != consistency.None: // load, rename
		c.known(2, "it is about", m.entity, r.Entity, 0)
		if r.Kind == consistency.Load && m.entity != nil {
			m.entity.loadReported = true
		}
	case r.Kind == consistency.Move:
		c.known(2, "it is about", m.entity, r.Entity, 0)
		if m.entity != nil {
			if old := c.live[key{m.entity.category, r.Other}]; old != nil && old != m.entity {
				c.violated(1, "%v %s moves to where another one is", m.entity.category, r.Entity)
			}
			delete(c.live, key{m.entity.category, r.Entity})
			c.live[key{m.entity.category, r.Other}] = m.entity
			renameLocks(c.locks, r.Entity, r.Other)
		}
	default:
		c.activity(r, m)
	}
	if r.Kind != consistency.Ended && (r.Category != consistency.Thread || m.entity != m.thread) {
		c.known(2, "its thread is", m.thread, r.Thread, 0)
	}
}

// renameLocks moves the state of a lock to its new identity, and drops the state of another
// lock that had that identity.
func renameLocks(locks map[[2]string]hold, from, to string) {
	if from == to {
		return
	}
	moved := map[[2]string]hold{}
	for pair, state := range locks {
		switch pair[0] {
		case from:
			moved[[2]string{to, pair[1]}] = state
			delete(locks, pair)
		case to:
			delete(locks, pair)
		}
	}
	maps.Copy(locks, moved)
}

// known requires that a reported identity belongs to an entity that was reported, has not
// ended, and is the one that was meant; a type must also be loaded, if event loadedBy
// loaded it.
func (c *checker) known(rule int, what string, meant *life, id string, loadedBy uint64) {
	if meant == nil || id == consistency.Unknown {
		return
	}
	switch is := c.live[key{meant.category, id}]; {
	case is == nil:
		c.violated(rule, "%s %v %s, which was not reported, or has ended", what, meant.category, id)
	case is != meant:
		c.violated(rule, "%s %v %s, and that is another one", what, meant.category, id)
	case meant.category == consistency.Type && meant.loaded != 0 && meant.loaded < loadedBy && !meant.loadReported:
		c.violated(rule, "%s %v %s, whose load was not reported", what, meant.category, id)
	}
}

func (c *checker) creation(r consistency.Report, m meaning) {
	k := key{r.Category, r.Entity}
	if old := c.live[k]; old != nil {
		c.violated(1, "%v %s is created while it exists", r.Category, r.Entity)
	}
	if m.entity.reported {
		c.violated(1, "%v %s is created twice", r.Category, r.Entity)
	}
	m.entity.reported = true
	c.live[k] = m.entity
	if r.Kind != consistency.Enter {
		return
	}
	c.known(4, "it was made in", m.parent, r.Parent, 0)
	c.known(2, "its receiver is", m.other, r.Other, 0)
	if m.class != nil && m.class.over == 0 && r.TypeName != consistency.Unknown {
		c.typeKnown(m.class, r.Seq)
	}
}

func (c *checker) typeKnown(l *life, by uint64) {
	switch {
	case !l.reported || l.ended:
		c.violated(2, "its type %s was not reported, or has ended", l.id)
	case l.loaded != 0 && l.loaded < by && !l.loadReported:
		c.violated(2, "the load of its type %s was not reported", l.id)
	}
}

func (c *checker) end(r consistency.Report, m meaning) {
	k := key{r.Category, r.Entity}
	switch is := c.live[k]; {
	case is == nil:
		c.violated(1, "%v %s ends, and was not reported", r.Category, r.Entity)
	case is != m.entity:
		c.violated(1, "%v %s ends, and that is another one", r.Category, r.Entity)
	}
	if m.entity != nil {
		m.entity.ended = true
	}
	owns := r.Category == consistency.Object || r.Category == consistency.Type && c.live[key{consistency.Object, r.Entity}] == nil
	delete(c.live, k)
	if r.Category != consistency.Invocation {
		for pair := range c.locks {
			if owns && pair[0] == r.Entity || r.Category == consistency.Thread && pair[1] == r.Entity {
				if r.Seq > 0 {
					c.holds(pair, m.held[pair])
				}
				delete(c.locks, pair)
			}
		}
	}
}

func (c *checker) activity(r consistency.Report, m meaning) {
	c.known(2, "it is about", m.entity, r.Entity, r.Seq)
	c.known(2, "it refers to", m.other, r.Other, r.Seq)
	if !synchronises(r.Kind) || r.Thread == consistency.Unknown {
		return
	}
	pair := [2]string{r.Entity, r.Thread}
	next, ok := c.locks[pair].follow(r.Kind, r.Seq)
	if !ok {
		c.violated(5, "%v of %s by %s, who holds it %d times", r.Kind, r.Entity, r.Thread, len(c.locks[pair].acquired))
		return
	}
	c.locks[pair] = next
}

// finish finds ends that were not reported.
func (c *checker) finish() {
	for _, l := range c.lives {
		if l.reported && l.over != 0 && !l.ended {
			c.violated(3, "%v %s has ended unreported", l.category, l.id)
		}
	}
	for pair := range c.locks {
		c.holds(pair, c.history.held[pair])
	}
}

// holds requires that a thread's use of a lock, as derived from the reports, equals the
// real one.
func (c *checker) holds(pair [2]string, real hold) {
	state := c.locks[pair]
	for _, seq := range state.acquired {
		if !slices.Contains(real.acquired, seq) {
			c.violated(5, "%s holds %s, reports say, and has released it", pair[1], pair[0])
		}
	}
	if state.waits != 0 && state.waits != real.waits {
		c.violated(5, "%s waits for %s, reports say, and does not", pair[1], pair[0])
	}
}

// synchronises reports whether rule 5 applies to the kind.
func synchronises(k consistency.Kind) bool {
	return k == consistency.Acquire || k == consistency.Release || k == consistency.BeginWait || k == consistency.EndWait
}

// endsLock reports whether after e a thread's use of a lock is unknown.
func endsLock(e *consistency.Event) bool {
	return e.Kind == consistency.Ended && e.Category == consistency.None
}

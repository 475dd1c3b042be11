package consistency_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	. "endoscope/operators/consistency"
	"endoscope/operators/optest/rules"
	_ "endoscope/operators/optest/seeds" // the same cases in every run
)

// program generates the events of a random program that obeys the rules: threads that call
// each other's methods, objects at reused addresses, types that refer to each other, locks
// that are held more than once, waits.
type program struct {
	*rapid.T
	events  []Event
	threads []string
	stacks  map[string][]string
	objects []string
	free    []string
	types   []string
	loaded  map[string]bool
	locks   map[[2]string]lockUse
	made    int
}

// lockUse is what a thread does with a lock: how often it holds it, and whether it waits.
type lockUse struct {
	depth int
	waits bool
}

// after returns the use after one more event; false if the event is not possible.
func (u lockUse) after(k Kind) (lockUse, bool) {
	switch {
	case k == Acquire && !u.waits:
		u.depth++
	case k == Release && !u.waits && u.depth > 0:
		u.depth--
	case k == BeginWait && !u.waits:
		u.waits = true
	case k == EndWait && u.waits:
		u.waits = false
	default:
		return u, false
	}
	return u, true
}

func (p *program) add(e Event) {
	e.Time = int64(len(p.events)) * 10
	p.events = append(p.events, e)
}

func pick[E any](t *rapid.T, from []E) E { return from[rapid.IntRange(0, len(from)-1).Draw(t, "i")] }

func (p *program) name() string {
	p.made++
	return fmt.Sprint(p.made)
}

func (p *program) innermost(thread string) string {
	if s := p.stacks[thread]; len(s) > 0 {
		return s[len(s)-1]
	}
	return ""
}

func (p *program) step() {
	if len(p.threads) == 0 || len(p.threads) < 4 && pick(p.T, []int{0, 1, 2, 3, 4, 5, 6, 7}) == 0 {
		id := pick(p.T, []string{"1", "2", "3", "4", "5"})
		if slices.Contains(p.threads, id) {
			return
		}
		e := Event{Category: Thread, Kind: Create, Entity: id, Name: p.name()}
		if len(p.threads) > 0 {
			e.Thread = pick(p.T, p.threads)
			e.Parent = e.Thread
		}
		p.add(e)
		p.threads = append(p.threads, id)
		return
	}
	thread := pick(p.T, p.threads)
	switch rapid.IntRange(0, 15).Draw(p.T, "what") {
	case 0:
		if len(p.types) < 5 {
			id := fmt.Sprint("c", len(p.types))
			p.add(Event{Category: Type, Kind: Create, Entity: id, Name: "class" + id, Thread: thread})
			p.types = append(p.types, id)
		}
	case 1: // types refer to each other, in circles too
		if len(p.types) > 0 {
			if id := pick(p.T, p.types); !p.loaded[id] {
				p.add(Event{Category: Type, Kind: Load, Entity: id, Parent: pick(p.T, p.types), Other: pick(p.T, p.types), Thread: thread})
				p.loaded[id] = true
			}
		}
	case 2, 3:
		if len(p.free) > 0 {
			i := rapid.IntRange(0, len(p.free)-1).Draw(p.T, "address")
			id := p.free[i]
			p.free = slices.Delete(p.free, i, i+1)
			e := Event{Category: Object, Kind: Create, Entity: id, Thread: thread}
			if len(p.types) > 0 {
				e.TypeName = "class" + pick(p.T, p.types)
			}
			p.add(e)
			p.objects = append(p.objects, id)
		}
	case 4:
		if len(p.objects) > 0 {
			i := rapid.IntRange(0, len(p.objects)-1).Draw(p.T, "object")
			id := p.objects[i]
			p.objects = slices.Delete(p.objects, i, i+1)
			p.free = append(p.free, id)
			p.add(Event{Category: Object, Kind: Reclaim, Entity: id, Thread: thread})
			for pair := range p.locks {
				if pair[0] == id {
					delete(p.locks, pair)
				}
			}
		}
	case 5, 6, 7:
		id := p.name()
		e := Event{Category: Invocation, Kind: Enter, Entity: id, Thread: thread, Name: "f"}
		if rapid.Bool().Draw(p.T, "says its parent") {
			e.Parent = p.innermost(thread)
		}
		if len(p.objects) > 0 && rapid.Bool().Draw(p.T, "has a receiver") {
			e.Other = pick(p.T, p.objects)
		}
		if len(p.types) > 0 {
			e.TypeName = "class" + pick(p.T, p.types)
		}
		p.add(e)
		p.stacks[thread] = append(p.stacks[thread], id)
	case 8, 9:
		if n := len(p.stacks[thread]); n > 0 {
			// Sometimes several at once, as an exception leaves them.
			n = rapid.IntRange(max(0, n-2), n-1).Draw(p.T, "down to")
			p.add(Event{Category: Invocation, Kind: Leave, Entity: p.stacks[thread][n], Thread: thread})
			p.stacks[thread] = p.stacks[thread][:n]
		}
	case 10:
		if len(p.objects) > 1 {
			p.add(Event{Kind: Reference, Entity: pick(p.T, p.objects), Other: pick(p.T, p.objects), Thread: thread})
		}
	case 11:
		if len(p.objects) > 0 && len(p.free) > 0 {
			i, j := rapid.IntRange(0, len(p.objects)-1).Draw(p.T, "object"), rapid.IntRange(0, len(p.free)-1).Draw(p.T, "address")
			from, to := p.objects[i], p.free[j]
			p.add(Event{Kind: Move, Entity: from, Other: to, Thread: thread})
			p.objects[i], p.free[j] = to, from
			for pair, state := range p.locks {
				if pair[0] == from {
					delete(p.locks, pair)
					p.locks[[2]string{to, pair[1]}] = state
				}
			}
		}
	case 12, 13:
		lock := "mutex"
		if len(p.objects) > 0 && rapid.Bool().Draw(p.T, "an object") {
			lock = pick(p.T, p.objects)
		}
		pair := [2]string{lock, thread}
		k := pick(p.T, []Kind{Acquire, Acquire, Release, Release, BeginWait, EndWait, Ended})
		if k == Ended && p.locks[pair] != (lockUse{}) {
			delete(p.locks, pair)
			p.add(Event{Kind: k, Entity: lock, Thread: thread})
		}
		if next, ok := p.locks[pair].after(k); ok {
			p.locks[pair] = next
			e := Event{Kind: k, Entity: lock, Thread: thread}
			if k == BeginWait { // its holder
				e.Other = pick(p.T, p.threads)
			}
			p.add(e)
		}
	case 14:
		p.add(Event{Category: Thread, Kind: Rename, Entity: thread, Thread: thread, Name: p.name()})
	case 15:
		if len(p.threads) > 1 && rapid.IntRange(0, 3).Draw(p.T, "ends") == 0 {
			p.add(Event{Category: Thread, Kind: Reclaim, Entity: thread, Thread: thread})
			p.threads = slices.DeleteFunc(p.threads, func(id string) bool { return id == thread })
			delete(p.stacks, thread)
			for pair := range p.locks {
				if pair[1] == thread {
					delete(p.locks, pair)
				}
			}
		}
	}
}

func random(t *rapid.T) []Event {
	p := &program{T: t, stacks: map[string][]string{}, loaded: map[string]bool{}, locks: map[[2]string]lockUse{}, free: []string{"1", "2", "3", "4"}}
	for range rapid.IntRange(10, 300).Draw(t, "steps") {
		p.step()
	}
	return p.events
}

// choice is the selection of events, and when reporting is suspended.
type choice struct {
	selected []bool
	suspend  map[int]string // before which event; "+" and a thread, or "-" and one
}

func choose(t *rapid.T, events []Event) choice {
	c := choice{suspend: map[int]string{}}
	share := rapid.SampledFrom([]float64{0.02, 0.1, 0.5, 1}).Draw(t, "share")
	rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	by := rapid.IntRange(0, 3).Draw(t, "by")
	thread := pick(t, []string{"1", "2", "3"})
	for i, e := range events {
		var yes bool
		switch by {
		case 0:
			yes = rnd.Float64() < share
		case 1:
			yes = e.Thread == thread
		case 2:
			yes = e.Category == None
		case 3:
			yes = e.Kind.Ends()
		}
		c.selected = append(c.selected, yes)
		if rnd.IntN(40) == 0 {
			c.suspend[i] = []string{"+", "-", "+" + thread, "-" + thread}[rnd.IntN(4)]
		}
	}
	return c
}

// keep runs a keeper; wanted are the events that had to be reported.
func keep(events []Event, c choice, maxLive int) (reports []Report, wanted []uint64, k *Keeper) {
	k = NewKeeper(func(r Report) { reports = append(reports, r) }, maxLive)
	suspended := map[string]bool{} // by thread, "" for all
	for i, e := range events {
		if s := c.suspend[i]; s != "" {
			thread := s[1:]
			if suspended[thread] = s[0] == '+'; suspended[thread] {
				k.Suspend(thread)
			} else {
				k.Resume(thread)
			}
		}
		if c.selected[i] && !suspended[""] && !suspended[e.Thread] {
			wanted = append(wanted, uint64(i+1))
		}
		k.Push(e, c.selected[i], e.Thread)
	}
	return reports, wanted, k
}

// TestKeeperHoldsRules checks that the checker finds no violation, and that all selected
// events are reported and marked as selected.
func TestKeeperHoldsRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := random(t)
		reports, wanted, k := keep(events, choose(t, events), 0)
		if found := rules.Check(events, reports); len(found) > 0 {
			t.Fatalf("%v\n%s", found, script(events, reports))
		}
		chosen := map[uint64]bool{}
		for _, r := range reports {
			if !r.CatchUp {
				chosen[r.Seq] = true
			}
		}
		for _, seq := range wanted {
			if !chosen[seq] {
				t.Fatalf("event %d, %+v, is not reported\n%s", seq, events[seq-1], script(events, reports))
			}
		}
		if len(chosen) != len(wanted) || k.Counts().Withheld > 0 {
			t.Fatalf("%d of %d events reported as selected, %+v", len(chosen), len(wanted), k.Counts())
		}
	})
}

// TestAllSelected checks that a complete stream is reported unchanged.
func TestAllSelected(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := random(t)
		c := choice{selected: slices.Repeat([]bool{true}, len(events))}
		reports, _, _ := keep(events, c, 0)
		var seqs []uint64
		for _, r := range reports {
			if r.Seq > 0 {
				seqs = append(seqs, r.Seq)
			}
		}
		if len(seqs) != len(events) || !slices.IsSorted(seqs) {
			t.Fatalf("%d of %d events\n%s", len(seqs), len(events), script(events, reports))
		}
	})
}

// TestCheckerFindsWhatIsPlanted checks that missing and duplicate reports are detected.
func TestCheckerFindsWhatIsPlanted(t *testing.T) {
	planted := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		events := random(t)
		reports, _, _ := keep(events, choose(t, events), 0)
		same := rules.SameEntity(events)
		candidates := map[string][]int{}
		for i, r := range reports {
			switch {
			case r.Kind.Ends() && r.Category != None:
				candidates["an end is missing"] = append(candidates["an end is missing"], i)
			case (r.Kind == Release || r.Kind == EndWait) && !slices.ContainsFunc(reports[i+1:], func(s Report) bool {
				return s.Kind == Ended && s.Entity == r.Entity // which ends what was not released
			}):
				candidates["a release is missing"] = append(candidates["a release is missing"], i)
			case r.Kind.Creates() && slices.ContainsFunc(reports[i+1:], func(s Report) bool {
				return s.Seq > 0 && r.Seq > 0 && s.Entity != Unknown && (s.Kind.Ends() || s.Category == None && s.Kind != Acquire) && same(s.Seq, r.Seq)
			}):
				candidates["a creation is missing"] = append(candidates["a creation is missing"], i)
			}
		}
		for what, at := range candidates {
			i := at[len(at)/2]
			if found := rules.Check(events, slices.Delete(slices.Clone(reports), i, i+1)); len(found) == 0 {
				t.Fatalf("%s at %d, %+v, and is not found\n%s", what, i, reports[i], script(events, reports))
			}
			planted[what]++
			if reports[i].Seq > 0 {
				if found := rules.Check(events, slices.Insert(slices.Clone(reports), i, reports[i])); len(found) == 0 {
					t.Fatalf("report %d comes twice, and is not found", i)
				}
			}
		}
	})
	for _, what := range []string{"an end is missing", "a release is missing", "a creation is missing"} {
		if planted[what] == 0 {
			t.Errorf("no test planted that %s", what)
		}
	}
}

// TestFilteredStreamBreaksRulesWithoutKeeper checks that a filtered stream breaks rules
// without a keeper, which is why the keeper is needed.
func TestFilteredStreamBreaksRulesWithoutKeeper(t *testing.T) {
	broken, tried := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		tried++
		events := random(t)
		c := choose(t, events)
		var reports []Report
		for i, e := range events {
			if c.selected[i] {
				e.Seq = uint64(i + 1)
				reports = append(reports, Report{Event: e, At: e.Time})
			}
		}
		if len(rules.Check(events, reports)) > 0 {
			broken++
		}
	})
	if 5*broken < tried {
		t.Errorf("only %d of %d programs were reported wrongly", broken, tried)
	}
}

// TestLimit checks that beyond the memory limit entities become unknown, and reports stay
// correct.
func TestLimit(t *testing.T) {
	forgot := 0
	rapid.Check(t, func(t *rapid.T) {
		events := random(t)
		limit := rapid.IntRange(1, 10).Draw(t, "limit")
		reports, _, k := keep(events, choose(t, events), limit)
		if found := rules.Check(events, reports); len(found) > 0 {
			t.Fatalf("%v\n%s", found, script(events, reports))
		}
		if k.Live() > limit {
			t.Fatalf("%d live, the limit is %d", k.Live(), limit)
		}
		if k.Counts().Forgotten > 0 {
			forgot++
		}
	})
	if forgot == 0 {
		t.Error("no program reached the limit")
	}
}

// TestRulesHoldBehindALoss checks that reports after a loss obey the rules, with more
// unknowns.
func TestRulesHoldBehindALoss(t *testing.T) {
	unended := uint64(0)
	rapid.Check(t, func(t *rapid.T) {
		events := random(t)
		c := choose(t, events)
		var reports []Report
		k := NewKeeper(func(r Report) { reports = append(reports, r) }, 0)
		lost := rapid.IntRange(0, len(events)-1).Draw(t, "lost before")
		for i, e := range events {
			if i == lost {
				k.Lost()
			}
			k.Push(e, c.selected[i], e.Thread)
		}
		if found := rules.Check(events, reports); len(found) > 0 {
			t.Fatalf("%v\n%s", found, script(events, reports))
		}
		unended += k.Counts().Unended
	})
	if unended == 0 {
		t.Error("nothing was lost")
	}
}

// TestBegunLate checks that threads whose creation was not seen still end, and so do their
// calls.
func TestBegunLate(t *testing.T) {
	var reports []Report
	k := NewKeeper(func(r Report) { reports = append(reports, r) }, 0)
	var events []Event
	for i := range 1000 {
		id := fmt.Sprint(i)
		events = append(events,
			Event{Category: Invocation, Kind: Enter, Entity: "call " + id, Thread: id},
			Event{Kind: Acquire, Entity: "mutex", Thread: id},
			Event{Category: Thread, Kind: Reclaim, Entity: id, Thread: id})
	}
	for i, e := range events {
		k.Push(e, i%3 == 0, "")
	}
	if found := rules.Check(events, reports); len(found) > 0 || k.Live() != 0 || len(reports) != 2000 {
		t.Errorf("%d live, %d reports, %v", k.Live(), len(reports), found)
	}
}

// TestMissedEvent checks that a lock with a missed event is reported again from the next
// consistent event on.
func TestMissedEvent(t *testing.T) {
	var got []string
	k := NewKeeper(func(r Report) { got = append(got, r.Kind.String()) }, 0)
	for _, kind := range []Kind{BeginWait, Acquire, Release, Release, Acquire} {
		k.Push(Event{Kind: kind, Entity: "mutex", Thread: "1"}, true, "")
	}
	if want := []string{"BEGIN_WAIT", "UNKNOWN", "ACQUIRE", "RELEASE", "ACQUIRE"}; !slices.Equal(got, want) || k.Counts().Withheld != 1 {
		t.Errorf("%v, want %v; %+v", got, want, k.Counts())
	}
}

// BenchmarkUnwind leaves all calls of a deep stack by leaving the outermost.
func BenchmarkUnwind(b *testing.B) {
	for range b.N {
		k := NewKeeper(func(Report) {}, 0)
		const depth = 10_000
		for i := range depth {
			k.Push(Event{Category: Invocation, Kind: Enter, Entity: fmt.Sprint(i), Thread: "1"}, i == depth-1, "")
		}
		k.Push(Event{Category: Invocation, Kind: Leave, Entity: "0", Thread: "1"}, false, "")
		if k.Live() != 0 {
			b.Fatal(k.Live())
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10_000, "ns/call")
}

// script formats the events and the reports.
func script(events []Event, reports []Report) string {
	out := ""
	for i, e := range events {
		out += fmt.Sprintf("%3d %v %v %s parent=%s other=%s thread=%s type=%s name=%s\n", i+1, e.Category, e.Kind, e.Entity, e.Parent, e.Other, e.Thread, e.TypeName, e.Name)
	}
	for i, r := range reports {
		out += fmt.Sprintf("report %d: %d %v %v %s parent=%s other=%s thread=%s catch-up=%t\n", i, r.Seq, r.Category, r.Kind, r.Entity, r.Parent, r.Other, r.Thread, r.CatchUp)
	}
	return out
}

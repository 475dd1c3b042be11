package entities

import (
	"cmp"
	"slices"
	"strings"

	"endoscope/probes/clock"
	"endoscope/probes/elf"
	"endoscope/probes/process"
	"endoscope/probes/stack"
)

// openCalls is the open calls of probed functions found on the stack of a
// thread, outermost first.
type openCalls struct {
	pid, tid int
	time     int64
	low      uint64 // bounds of the mapping that contains its stack
	high     uint64
	calls    []openCall
}

type openCall struct {
	name, class string
	frame       uint64
}

// place is the address of the first instruction of a function in its file.
type place struct {
	module string
	offset uint64
}

// entriesOf returns the functions that a part probes, by place.
func entriesOf(p *part) map[place]uint64 {
	out := map[place]uint64{}
	for _, s := range p.source.Info().Sites {
		if s.Address != 0 && strings.HasPrefix(s.Kind, "entry") {
			out[place{s.Module, s.Address - s.Behind}] = s.Address
		}
	}
	return out
}

// findOpenCalls finds the probed functions that each thread is in. It may fail for some
// threads; their calls are then unknown.
func findOpenCalls(cache *elf.Cache, entries map[place]uint64, running []process.Process) (out []openCalls, err error) {
	offset := clock.Offset()
	maps := map[int][]process.Mapping{}
	err = stack.SampleOnce(cache, running, func(s stack.OpenCalls) {
		x := openCalls{pid: s.PID, tid: s.TID, time: s.Time + offset}
		for i, c := range s.Calls {
			probe, ok := entries[place{c.Module, c.Begins}]
			if !ok || i == 0 && c.At <= probe { // its entry is yet to be reported
				continue
			}
			x.calls = append(x.calls, openCall{c.Function, c.Class, c.Frame})
		}
		if len(x.calls) == 0 {
			out = append(out, x)
			return
		}
		slices.Reverse(x.calls)
		if _, ok := maps[s.PID]; !ok {
			maps[s.PID], _ = process.Mappings(s.PID) // none: the process has ended
		}
		innermost := x.calls[len(x.calls)-1].frame
		for _, m := range maps[s.PID] {
			if m.Start <= innermost && innermost < m.End {
				x.low, x.high = m.Start, m.End
			}
		}
		// Frames on another stack, that of a signal handler or a coroutine, are
		// outside these bounds, and cannot be told apart by their addresses.
		x.calls = slices.DeleteFunc(x.calls, func(c openCall) bool { return c.frame < x.low || c.frame >= x.high })
		out = append(out, x)
	})
	return out, err
}

// applyFrames adds calls that were found on stacks and whose entries were not
// seen: they began before the probes were attached, or while calls were
// suspended. known returns the frame of the outermost call that each thread
// enters between now and the time its stack was read; frames at it and inside
// it are reported by their own events.
func (w *world) applyFrames(found []openCalls, known func(*openCalls) uint64) {
	for i := range found {
		f := &found[i]
		t := w.known(f.pid, f.tid)
		if t == nil {
			continue
		}
		w.endUnfound(t, f)
		from := 0
		for from < len(t.calls.calls) && !t.calls.calls[from].duringSuspension {
			from++
		}
		// Calls entered meanwhile are reported again after those that enclose
		// them: the objects that they construct or destroy stay so.
		again, depth := slices.Clone(t.calls.calls[from:]), t.calls.depth()
		for len(t.calls.calls) > from {
			w.pop(t, unknown, false)
		}
		innermost := ^uint64(0)
		if from > 0 {
			innermost = t.calls.calls[from-1].frame
		}
		t.calls.low, t.calls.high = f.low, f.high
		after := known(f)
		for _, c := range f.calls {
			if c.frame >= innermost || c.frame <= after {
				continue
			}
			next := call{name: c.name, class: c.class, structor: w.structors[c.name], frame: c.frame, found: true}
			if i := slices.IndexFunc(again, func(a call) bool { return a.frame == c.frame && a.name == c.name }); i >= 0 {
				next = again[i]
				next.duringSuspension = false
				if !next.found {
					t.calls.followed++
				}
			}
			w.begin(t, next)
		}
		t.calls.base = depth - t.calls.followed // some have ended since
	}
}

// endUnfound ends calls that were found before and are not on the stack any
// more.
func (w *world) endUnfound(t *thread, f *openCalls) {
	for i, c := range t.calls.calls {
		if c.found && !slices.ContainsFunc(f.calls, func(s openCall) bool { return s.frame == c.frame && s.name == c.name }) {
			for len(t.calls.calls) > i {
				w.pop(t, unknown, false)
			}
			return
		}
	}
}

// endPassedFrames ends found calls that cannot be open any more, since a call at
// frame is.
func (w *world) endPassedFrames(t *thread, frame uint64) {
	if frame == 0 {
		return
	}
	for n := len(t.calls.calls); n > 0; n = len(t.calls.calls) {
		c := &t.calls.calls[n-1]
		other := t.calls.high != 0 && (frame < t.calls.low || frame >= t.calls.high)
		if !c.found || c.frame > frame && !other {
			return
		}
		w.pop(t, unknown, false)
	}
}

// leaveFrame is leave for a call whose frame is known.
func (w *world) leaveFrame(t *thread, h event) {
	found := h.kind == over
	i := len(t.calls.calls) - 1
	for i >= 0 && (t.calls.calls[i].frame != h.frame || t.calls.calls[i].name != h.name || t.calls.calls[i].found != found) {
		i--
	}
	if i < 0 {
		if !found { // an unknown call outside has ended
			t.calls.base = max(0, h.depth-t.calls.followed)
		}
		return
	}
	for len(t.calls.calls) > i {
		how := leave
		if len(t.calls.calls) > i+1 && t.calls.calls[len(t.calls.calls)-1].found { // the time of its end was not seen
			how = unknown
		}
		w.pop(t, how, h.kind == unwound)
	}
}

// suspension is the threads whose calls may be suppressed.
type suspension struct {
	all   bool
	names []string
}

func (h suspension) any() bool { return h.all || len(h.names) > 0 }

// ignores reports whether calls of a thread may be suppressed.
func (w *world) ignores(t *thread) bool {
	return w.suspension.all || slices.Contains(w.suspension.names, t.name)
}

// enteredBefore returns applyFrames' known: it searches the pending events
// for the outermost call that each thread enters until its stack was read.
func enteredBefore(m *merge, found []openCalls) func(*openCalls) uint64 {
	type threadKey struct{ pid, tid int }
	until, outermost := map[threadKey]int64{}, map[threadKey]uint64{}
	for _, f := range found {
		until[threadKey{f.pid, f.tid}] = f.time
	}
	for _, x := range m.heap {
		h := &m.slots[x.slot]
		if h.kind != entered {
			continue
		}
		id := threadKey{h.pid, h.tid}
		if h.time <= until[id] {
			outermost[id] = max(outermost[id], h.frame)
		}
	}
	return func(f *openCalls) uint64 { return outermost[threadKey{f.pid, f.tid}] }
}

// lastLook returns the time at which the last of the stacks was read.
func lastLook(found []openCalls) int64 {
	if len(found) == 0 {
		return 0
	}
	return slices.MaxFunc(found, func(a, b openCalls) int { return cmp.Compare(a.time, b.time) }).time
}

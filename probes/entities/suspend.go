package entities

import (
	"context"
	"slices"

	"endoscope/probes"
	"endoscope/probes/clock"
	"endoscope/probes/process"
)

// surveyCalls finds the open calls of threads.
func (s *source) surveyCalls(there *inventory, running []process.Process) {
	if s.calls == nil {
		return
	}
	var err error
	there.stands, err = findOpenCalls(s.library.cache, s.entries, running)
	there.blind = err != nil
}

// followCalls records that a part follows the calls of native programs.
func (s *source) followCalls(p *part) {
	s.calls, s.entries = p, entriesOf(p)
	structors := s.library.structors
	p.suspends = p.source.Info().Suspends
	p.options.Required = func(name string) bool { return structors[name] != method }
}

// suspend implements probes.Suspend. Lifetimes of objects, and ends of calls
// that were reported, are delivered throughout. The other open calls are found
// when the suspension ends. Before Start it is remembered.
func (s *source) suspend(c probes.Suspend) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.suspended
	s.suspended = suspension{c.All, c.Threads}
	if s.begun {
		s.applySuspension(was)
	}
}

// applySuspension applies the last Suspend; was is the state before it. The
// caller holds mu.
func (s *source) applySuspension(was suspension) {
	if s.calls == nil || !s.calls.suspends || s.ended || s.stopping {
		return
	}
	said := s.suspended
	command := probes.Suspend{All: said.all, Threads: said.names}
	if said.any() {
		both := suspension{was.all || said.all, append(slices.Clone(was.names), said.names...)}
		s.merge.add(event{time: clock.Now(), kind: suspending, suspension: both})
	}
	if _, err := s.calls.source.Control(context.Background(), command); err != nil || !was.any() {
		return // if the part refuses, more is reported than needed
	}
	l := &look{time: clock.Now()}
	s.looking[l] = struct{}{}
	go func() {
		there := &inventory{}
		if running, err := process.Resolve(s.spec.Target); err == nil {
			s.surveyCalls(there, running)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.looking, l)
		s.merge.add(event{time: l.time, kind: resuming, suspension: said, there: there})
		s.release()
	}()
}

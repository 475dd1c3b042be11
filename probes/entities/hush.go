package entities

import (
	"slices"

	"endoscope/probes/clock"
	"endoscope/probes/process"
)

// hushable is a part of which calls can be overlooked while nobody reports them.
type hushable interface {
	Need(function func(name string) bool)
	Hush(all bool, threads []string) error
}

// surveyCalls finds out which calls threads are in.
func (s *source) surveyCalls(there *inventory, running []process.Process) {
	if s.calls == nil {
		return
	}
	var err error
	there.stands, err = stand(s.library.cache, s.entries, running)
	there.blind = err != nil
}

// followCalls notes that a part follows the calls of native programs.
func (s *source) followCalls(p *part) {
	s.calls, s.entries = p, entriesOf(p)
	if h, ok := p.source.(hushable); ok {
		structors := s.library.structors
		h.Need(func(name string) bool { return structors[name] != method })
	}
}

// Hush implements probes.Hushable. Lives of objects go on to be told, and ends of
// calls that were told of; of the others is found out behind it which are under way.
func (s *source) Hush(all bool, threads []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.saidHush
	s.saidHush = hush{all, threads}
	if s.begun {
		s.applyHush(was)
	}
}

// applyHush does what was said last, after was. mu is held.
func (s *source) applyHush(was hush) {
	if s.calls == nil || s.over || s.stopping {
		return
	}
	h, ok := s.calls.source.(hushable)
	if !ok {
		return
	}
	said := s.saidHush
	if said.any() {
		both := hush{was.all || said.all, append(slices.Clone(was.names), said.names...)}
		s.merge.add(happening{time: clock.Now(), kind: hushing, hush: both})
	}
	if h.Hush(said.all, said.names) != nil || !was.any() {
		return // if it cannot, more is told than is needed
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
		s.merge.add(happening{time: l.time, kind: heeding, hush: said, there: there})
		s.release()
	}()
}

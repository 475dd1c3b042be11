package uprobe

import (
	"slices"
	"time"

	"endoscope/probes/lang/java"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/resolve"
)

// lookEvery is the interval of checks for changes in what a source observes. Queries and
// triggers may run for weeks.
const lookEvery = time.Second

// unobservedWatch reports to the sink, while a source runs, new processes and files that it
// cannot observe.
type unobservedWatch struct {
	source *source
	// machines: other Java machines may start. known are the processes that need no
	// further report; suspects did not report methods when they were first seen.
	machines        bool
	known, suspects []process.Process
}

// newUnobservedWatch returns nil where there is nothing to check. The source is not armed yet.
func (s *source) newUnobservedWatch() *unobservedWatch {
	t := s.spec.Target
	l := &unobservedWatch{source: s, machines: s.resolution.AreReported() && !s.resolution.Python && t.Grows(), known: s.resolution.Running}
	if !l.machines && len(s.executables) == 0 {
		return nil
	}
	return l
}

// silentMachines is why calls of later Java machines are not observed.
const silentMachines = "Java virtual machines that have started and do not report their methods: " + java.Hint

// run checks until the source ends.
func (l *unobservedWatch) run() {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	s := l.source
	p := s.provider
	for {
		select {
		case <-ticker.C:
		case <-s.state:
			return
		}
		now := s.lookAtExecutables()
		silent := l.countSilentMachines()
		p.mu.Lock()
		if p.active[s] != nil && !s.stopped {
			p.reportReplaced(s, now)
			if silent > 0 {
				p.reader.Do(func() { s.sub.Sink.Lost(silentMachines, silent) })
			}
		}
		p.mu.Unlock()
	}
}

// countSilentMachines counts new machines that do not report calls. They are counted when seen for
// the second time: a machine that has just started may not have read its settings yet.
func (l *unobservedWatch) countSilentMachines() (n uint64) {
	if !l.machines {
		return 0
	}
	running, err := process.Resolve(l.source.spec.Target)
	if err != nil {
		return 0 // they have ended
	}
	in := func(list []process.Process, p process.Process) bool {
		return slices.ContainsFunc(list, func(q process.Process) bool { return q.PID == p.PID && q.StartTime == p.StartTime })
	}
	var known, suspects, came []process.Process
	for _, p := range running {
		if in(l.known, p) {
			known = append(known, p)
		} else {
			came = append(came, p)
		}
	}
	for _, pl := range resolve.Machines(came, false) {
		switch p := pl.Process; {
		case java.FiresMethodProbes(p.PID, pl.Mapping):
			known = append(known, p)
		case !in(l.suspects, p):
			suspects = append(suspects, p)
		default:
			if q, runs := process.Lookup(p.PID); runs && q.StartTime == p.StartTime {
				n++
			}
			known = append(known, p)
		}
	}
	l.known, l.suspects = known, suspects
	return n
}

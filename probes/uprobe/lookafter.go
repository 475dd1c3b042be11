package uprobe

import (
	"slices"
	"time"

	"endoscope/probes/process"
	"endoscope/probes/runtimes/java"
)

// lookEvery is how often it is looked whether what a source observes is still what it
// was. Queries and triggers may run for weeks.
const lookEvery = time.Second

// lookAfter tells the sink, while the source runs, what it cannot observe of what comes.
func (s *source) lookAfter() {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	p, machines := s.provider, s.newcomers()
	for {
		select {
		case <-ticker.C:
		case <-s.state:
			return
		}
		var silent uint64
		if machines != nil {
			silent = machines.silent(s)
		}
		p.mu.Lock()
		if p.active[s] != nil && !s.stopped {
			p.tellReplaced(s)
			if silent > 0 {
				p.reader.do(func() { s.sub.sink.Lost(silentMachines, silent) })
			}
		}
		p.mu.Unlock()
	}
}

// changes reports whether there is anything to look after.
func (s *source) changes() bool { return len(s.executables) > 0 || s.newcomers() != nil }

// silentMachines is why calls of machines are not observed that begin later.
const silentMachines = "Java machines that have begun and tell no methods: " + java.Hint

// newcomers are the processes of a target of Java machines that are known.
type newcomers []process.Process

// newcomers is nil where no other machines come.
func (s *source) newcomers() *newcomers {
	if t := s.spec.Target; !s.resolution.java() || len(t.Processes)+len(t.Exes) == 0 {
		return nil
	}
	known := newcomers(slices.Clone(s.resolution.running))
	return &known
}

// silent counts the machines that have come since and do not tell of calls. A process that
// has not loaded its machine yet is looked at again.
func (known *newcomers) silent(s *source) (n uint64) {
	running, err := process.Resolve(s.spec.Target)
	if err != nil {
		return 0 // they have ended
	}
	old := *known
	*known = nil
	var came []process.Process
	for _, p := range running {
		if slices.ContainsFunc(old, func(q process.Process) bool { return q.PID == p.PID && q.StartTime == p.StartTime }) {
			*known = append(*known, p)
		} else {
			came = append(came, p)
		}
	}
	all, telling := machines(came, false), machines(came, true)
	for _, pl := range all {
		*known = append(*known, pl.process)
	}
	return uint64(len(all) - len(telling))
}

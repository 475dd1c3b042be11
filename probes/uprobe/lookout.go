package uprobe

import (
	"slices"
	"time"

	"endoscope/probes/lang/java"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/resolve"
)

// lookEvery is how often it is looked whether what a source observes is still what it
// was. Queries and triggers may run for weeks.
const lookEvery = time.Second

// lookout tells the sink, while a source runs, what it cannot observe of what comes.
type lookout struct {
	source *source
	// machines says that others may come, and known are the processes of which nothing
	// is to be told any more; suspects have not told methods when they were seen first.
	machines        bool
	known, suspects []process.Process
}

// newLookout is nil where there is nothing to look after. The source is not armed yet.
func (s *source) newLookout() *lookout {
	t := s.spec.Target
	l := &lookout{source: s, machines: s.resolution.IsJava() && len(t.Processes)+len(t.Exes) > 0, known: s.resolution.Running}
	if !l.machines && len(s.executables) == 0 {
		return nil
	}
	return l
}

// silentMachines is why calls of machines are not observed that begin later.
const silentMachines = "Java machines that have begun and tell no methods: " + java.Hint

// run looks until the source ends.
func (l *lookout) run() {
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
		silent := l.silent()
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

// silent counts the machines that have come since and do not tell of calls, when they are
// seen the second time: one that has only begun may not have read its settings.
func (l *lookout) silent() (n uint64) {
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
		case java.TellsMethods(p.PID, pl.Mapping):
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

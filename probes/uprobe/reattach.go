package uprobe

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"endoscope/probes/clock"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/program"
	"endoscope/probes/uprobe/selection"
)

// A link that is restricted to a process knows it by its leader's task, which ends when
// another thread executes a program. To restrict none would be exact, and cost every
// other process of the same file a trap for each call, 0.5 µs; that a thread which is no
// leader executes a program is rare. So such links are made anew then, and it is told
// that what was called in between is missing.

// follow has the source's links made anew when they are heard no more. Provider.mu is
// held.
func (p *Provider) follow(s *source) (err error) {
	if p.executions == nil && len(s.restricted()) > 0 {
		p.executions, err = followExecutions(p.kernel.Types, p.executed, p.executedUnheard)
	}
	return err
}

// unfollow ends what follow began, when no source needs it. Provider.mu is held.
func (p *Provider) unfollow() {
	for s := range p.active {
		if len(s.restricted()) > 0 {
			return
		}
	}
	if p.executions != nil {
		p.executions.stop(&p.following)
		p.executions = nil
	}
}

// executed is called when a thread that was not the leader has executed a program.
func (p *Provider) executed(e execution) {
	p.mu.Lock()
	var concerned []*source
	for s := range p.active {
		if slices.Contains(s.restricted(), e.pid) {
			concerned = append(concerned, s)
		}
	}
	p.mu.Unlock()
	var each sync.WaitGroup
	for _, s := range concerned {
		each.Go(func() { s.renew(e) })
	}
	each.Wait()
}

// executedUnheard is called when that happened and it is not known to whom.
func (p *Provider) executedUnheard() {
	p.mu.Lock()
	pids := map[int]bool{}
	for s := range p.active {
		for _, pid := range s.restricted() {
			pids[pid] = true
		}
	}
	p.mu.Unlock()
	for pid := range pids {
		p.executed(execution{pid: pid, time: clock.Boot()})
	}
}

// renew makes the links anew that are restricted to a process. The old ones are closed
// before: the kernel runs their programs where the new ones have set breakpoints (it
// compares task->signal there, which is the process'), and calls would count twice.
func (s *source) renew(e execution) {
	s.flip.Lock()
	defer s.flip.Unlock()
	p := s.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.active[s]
	if in == nil || s.stopped {
		return
	}
	stale := in.TakeLinks(e.pid, e.time)
	if len(stale) == 0 {
		return // they were made since, or are detached
	}
	var each sync.WaitGroup
	for _, l := range stale {
		each.Go(l.Close)
	}
	each.Wait()
	said := untilEnd(e.pid)
	if s.runs(e.pid) {
		err := s.reattach(in, e)
		other := s.otherProgram(e.pid)
		switch {
		case !s.runs(e.pid): // it has ended meanwhile, and what was found does not count
		case err != nil:
			said = fmt.Sprintf("calls of process %d from when it executed a program: that cannot be probed: %v", e.pid, err)
		case other != "":
			said = fmt.Sprintf("calls of process %d in %s, which a thread other than its leader executed: ask for exe = '%s' there", e.pid, other, other)
		default:
			gap := time.Duration(clock.Boot() - e.time).Round(10 * time.Microsecond)
			said = fmt.Sprintf("calls of process %d from when a thread other than its leader executed a program until that was probed, a gap of %v", e.pid, gap)
		}
	}
	p.reader.Do(func() { s.sub.Sink.Lost(said, 1) })
}

// runs reports whether a process of the target has not ended.
func (s *source) runs(pid int) bool {
	q, runs := process.Lookup(pid)
	return runs && s.resolution.Knows(q)
}

// otherProgram is the executable of a process if that is none in which the query's
// functions are looked for, else "".
func (s *source) otherProgram(pid int) string {
	if s.resolution.Selector.InModule != nil || s.resolution.Selector.Marked {
		return ""
	}
	var st unix.Stat_t
	q, runs := process.Lookup(pid)
	if !runs || unix.Stat(fmt.Sprintf("/proc/%d/exe", pid), &st) != nil {
		return ""
	}
	id := process.FileID{Dev: st.Dev, Inode: st.Ino}
	if slices.ContainsFunc(s.resolution.Modules.List, func(m *selection.Module) bool { return m.ID == id }) {
		return ""
	}
	return q.Exe
}

// reattach attaches what is restricted to a process. The sequences of what it executes
// now have a gap in front where they began before.
func (s *source) reattach(in *program.Installation, e execution) error {
	// As long as not every probe is there, whoever begins may have begun before.
	if err := in.Overlook(e.pid, e.image, math.MaxInt64); err != nil {
		return err
	}
	if err := s.provider.attachFrom(s, in, 0, 0, e.pid); err != nil {
		return err
	}
	return in.Overlook(e.pid, e.image, clock.Boot())
}

// reportMissedProcesses tells the sink of processes that have executed a program, and whose links
// were not made anew before the end. Provider.mu is held.
func (p *Provider) reportMissedProcesses(s *source, in *program.Installation) {
	if p.executions == nil {
		return
	}
	for _, pid := range s.restricted() {
		if slices.ContainsFunc(in.Links, func(l *attach.Link) bool { return l.PID == pid && p.executions.since(pid, l.Made) }) {
			p.reader.Do(func() { s.sub.Sink.Lost(untilEnd(pid), 1) })
		}
	}
}

func untilEnd(pid int) string {
	return fmt.Sprintf("calls of process %d from when a thread other than its leader executed a program until the end", pid)
}

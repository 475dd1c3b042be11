package uprobe

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"endoscope/probes/clock"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/program"
	"endoscope/probes/uprobe/selection"
)

// A link restricted to a process refers to its leader's task, which ends when another
// thread calls exec. Unrestricted links would be exact, but cost every other process of
// the same file a trap for each call, 0.5 µs; and exec by a thread that is not the
// leader is rare. So the links are attached again after such an exec, and the missed
// calls in between are reported.

// follow makes sure that the source's links are attached again when they stop firing.
// The caller holds Provider.mu.
func (p *Provider) follow(s *source) (err error) {
	if p.executions == nil && len(s.restricted()) > 0 {
		p.executions, err = followExecutions(p.kernel.Types, p.executed, p.executionsLost)
	}
	return err
}

// unfollow ends what follow started, when no source needs it. The caller holds
// Provider.mu.
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

// executed is called when a non-leader thread has called exec.
func (p *Provider) executed(e execution) {
	p.mu.Lock()
	concerned := p.activeSources(func(s *source) bool { return slices.Contains(s.restricted(), e.pid) })
	p.mu.Unlock()
	doAll(concerned, func(s *source) { s.renew(e) })
}

// activeSources returns the active sources that are concerned. The caller holds Provider.mu.
func (p *Provider) activeSources(concerned func(*source) bool) (list []*source) {
	for s := range p.active {
		if concerned(s) {
			list = append(list, s)
		}
	}
	return list
}

// doAll calls f for all sources at once, and waits.
func doAll(list []*source, f func(*source)) {
	var each sync.WaitGroup
	for _, s := range list {
		each.Go(func() { f(s) })
	}
	each.Wait()
}

// executionsLost is called when records of such calls were lost. Any restricted process
// may be affected.
func (p *Provider) executionsLost() {
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

// renew replaces the links that are restricted to a process. The old ones are closed
// first: the kernel would run their programs at the breakpoints of the new ones (it
// compares task->signal there, which belongs to the process), and count calls twice.
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
		return // already replaced, or detached
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
		case !s.runs(e.pid): // it has ended meanwhile: the results do not count
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

// runs reports whether a process of the target is still running.
func (s *source) runs(pid int) bool {
	q, runs := process.Lookup(pid)
	return runs && s.resolution.Knows(q)
}

// otherProgram returns the executable of a process if the query's functions are not
// looked for in it, else "".
func (s *source) otherProgram(pid int) string {
	if s.resolution.Selector.InModule != nil || s.resolution.Selector.Marked {
		return ""
	}
	q, runs := process.Lookup(pid)
	id, there := selection.IDAt(fmt.Sprintf("/proc/%d/exe", pid))
	if !runs || !there {
		return ""
	}
	if slices.ContainsFunc(s.resolution.Modules.List, func(m *selection.Module) bool { return m.ID == id }) {
		return ""
	}
	return q.Exe
}

// reattach attaches the probes restricted to a process. Sequences of the new program
// that began earlier start with a gap.
func (s *source) reattach(in *program.Installation, e execution) error {
	// Until all probes are attached, any sequence may have begun earlier.
	if err := in.MarkMissed(e.pid, e.image, math.MaxInt64); err != nil {
		return err
	}
	if err := s.provider.attachFrom(s, in, 0, 0, e.pid); err != nil {
		return err
	}
	return in.MarkMissed(e.pid, e.image, clock.Boot())
}

// reportMissedProcesses reports processes that have called exec and whose links were not
// replaced before the end. The caller holds Provider.mu.
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

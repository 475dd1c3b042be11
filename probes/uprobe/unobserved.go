package uprobe

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"endoscope/planner/plan"
	"endoscope/probes/lang/java"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/program"
	"endoscope/probes/uprobe/resolve"
	"endoscope/probes/uprobe/selection"
)

// executable identifies the file at a path of the target when its functions were looked
// up. Probes belong to files: a file that replaces it has none, and after a write they
// may be at wrong instructions.
type executable struct {
	path    string
	dev     uint64
	inode   uint64 // 0: there was no file
	size    int64
	written int64 // modification time, ns since the epoch
}

func executableAt(path string) executable {
	x := executable{path: path}
	var st unix.Stat_t
	if unix.Stat(path, &st) == nil {
		x.dev, x.inode, x.size, x.written = st.Dev, st.Ino, st.Size, st.Mtim.Nano()
	}
	return x
}

func executablesAt(paths []string) (list []executable) {
	for _, path := range paths {
		list = append(list, executableAt(path))
	}
	return list
}

// lookAtExecutables returns the current files at the paths. It may be slow, so
// Provider.mu is not held.
func (s *source) lookAtExecutables() (now []executable) {
	s.provider.mu.Lock()
	before := slices.Clone(s.executables)
	s.provider.mu.Unlock()
	for _, x := range before {
		now = append(now, executableAt(x.path))
	}
	return now
}

// reportReplaced reports executables that have changed, each once: processes that
// executed them since were not observed, or not correctly. A path without a file is
// skipped, because nothing can execute it. The caller holds Provider.mu.
func (p *Provider) reportReplaced(s *source, now []executable) {
	s.executables = slices.DeleteFunc(s.executables, func(x executable) bool {
		i := slices.IndexFunc(now, func(n executable) bool { return n.path == x.path })
		if i < 0 || now[i].inode == 0 || now[i] == x || s.hasWritten(process.FileID{Dev: now[i].dev, Inode: now[i].inode}) {
			return false
		}
		said := fmt.Sprintf("calls of processes that have executed %s since it was replaced", x.path)
		if now[i].dev == x.dev && now[i].inode == x.inode {
			said = fmt.Sprintf("calls of processes that have executed %s since it was written to", x.path)
		}
		p.reader.Do(func() { s.sub.Sink.Lost(said, 1) })
		return true
	})
}

// lease acquires a lease on a probed file, so that it is not written meanwhile. The
// caller holds Provider.mu.
func (p *Provider) lease(s *source, in *program.Installation, m *selection.Module) error {
	if i := slices.IndexFunc(in.Leases, func(one *attach.Lease) bool { return one.Id == m.ID }); i >= 0 {
		if p.leases.Holds(in.Leases[i]) {
			return nil
		}
		in.Leases = slices.Delete(in.Leases, i, i+1)
	}
	refuse := func(why error) error {
		return plan.Errorf(s.spec.Start, s.spec.Stop, "cannot probe %s: %v", m.Path, why).WithHint("run the query again when it is closed")
	}
	one, err := p.leases.Acquire(m.File, m.ID)
	if err != nil {
		return refuse(err)
	}
	if one != nil {
		in.Leases = append(in.Leases, one)
	}
	if !m.IsAsRead() {
		return refuse(errWritten)
	}
	return nil
}

// errWritten is returned for a file whose functions may have moved.
var errWritten = errors.New("it was written to after its functions were looked up")

// overwritten detaches the probes of a file that a process has opened for writing. That
// process blocks until it returns.
func (p *Provider) overwritten(id process.FileID) {
	p.mu.Lock()
	p.overwrites[id]++
	concerned := p.activeSources(func(s *source) bool { return s.probes(id) })
	p.mu.Unlock()
	doAll(concerned, func(s *source) { s.abandon(id) })
}

// countOverwrites returns how often modules were opened for writing while they were
// probed.
func (p *Provider) countOverwrites(of *selection.ModuleSet) (n uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range of.List {
		n += p.overwrites[m.ID]
	}
	return n
}

// probes reports whether the source probes a file. The caller holds Provider.mu.
func (s *source) probes(id process.FileID) bool { return len(s.modulesOf(id)) > 0 }

// modulesOf lists the modules of the source that are the given file. The caller holds
// Provider.mu.
func (s *source) modulesOf(id process.FileID) (list []*selection.Module) {
	add := func(m *selection.Module) {
		if m.ID == id && !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	for _, w := range s.resolution.Functions {
		add(w.Module)
	}
	for _, l := range s.resolution.Landmarks {
		add(l.Module)
	}
	return list
}

// hasWritten reports whether a file was opened for writing since it was probed, and that
// was reported. The caller holds Provider.mu.
func (s *source) hasWritten(id process.FileID) bool {
	return slices.ContainsFunc(s.modulesOf(id), func(m *selection.Module) bool { return m.Written })
}

// abandon detaches the probes of a file for good, and reports it to the sink.
func (s *source) abandon(id process.FileID) {
	s.flip.Lock()
	defer s.flip.Unlock()
	p := s.provider
	p.mu.Lock()
	in := p.active[s]
	if in == nil {
		p.mu.Unlock()
		return
	}
	if s.stopped { // Stop is about to detach everything
		p.mu.Unlock()
		in.Detach()
		return
	}
	path := ""
	for _, m := range s.modulesOf(id) {
		m.Written, path = true, m.Path
	}
	var left, gone []*attach.Link
	for _, l := range in.Links {
		if l.File == id {
			gone = append(gone, l)
		} else {
			left = append(left, l)
		}
	}
	in.Links = left
	in.Leases = slices.DeleteFunc(in.Leases, func(one *attach.Lease) bool { return one.Id == id })
	p.mu.Unlock()
	attach.CloseAll(gone) // slow; only the writer waits for it
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.active[s] == in {
		p.reader.Do(func() {
			s.sub.Sink.Lost(fmt.Sprintf("calls in %s from when it was opened for writing", path), 1)
		})
	}
}

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

package uprobe

import (
	"fmt"
	"slices"

	"endoscope/planner/plan"

	"golang.org/x/sys/unix"
)

// executable is the file that a path of the target led to when its functions were
// looked up. Probes are in files: what takes its place has none, and what is written
// into it may have them where they do not belong.
type executable struct {
	path    string
	dev     uint64
	inode   uint64 // 0: there was none
	size    int64
	written int64 // when, ns since the epoch
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

// tellReplaced tells the sink of executables that are not any more what they were, of each
// once: whoever has executed them since was not observed, or not as was meant. Where a path
// leads nowhere, nobody executes it. Provider.mu is held.
func (p *Provider) tellReplaced(s *source) {
	s.executables = slices.DeleteFunc(s.executables, func(x executable) bool {
		now := executableAt(x.path)
		if now.inode == 0 || now == x || s.hasWritten(fileID{now.dev, now.inode}) {
			return false
		}
		said := fmt.Sprintf("calls of processes that have executed %s since it was replaced", x.path)
		if now.dev == x.dev && now.inode == x.inode {
			said = fmt.Sprintf("calls of processes that have executed %s since it was written to", x.path)
		}
		p.reader.do(func() { s.sub.sink.Lost(said, 1) })
		return true
	})
}

// lease sees to it that nobody writes into a file that is probed. Provider.mu is held.
func (p *Provider) lease(s *source, in *installation, m *module) error {
	if slices.ContainsFunc(in.leases, func(one *lease) bool { return one.id == m.id }) {
		return nil
	}
	one, err := p.leases.take(m.file, m.id)
	if err != nil {
		return plan.Errorf(s.spec.Start, s.spec.Stop, "cannot probe %s: %v", m.path, err).WithHint("ask again when that is done")
	}
	if one != nil {
		in.leases = append(in.leases, one)
	}
	return nil
}

// overwritten takes the probes of a file away that somebody has opened to write: who
// waits for it.
func (p *Provider) overwritten(id fileID) {
	p.mu.Lock()
	var concerned []*source
	for s := range p.active {
		if s.probes(id) {
			concerned = append(concerned, s)
		}
	}
	p.mu.Unlock()
	for _, s := range concerned {
		s.abandon(id)
	}
}

// probes reports whether a file is among those that the source probes. Provider.mu is
// held.
func (s *source) probes(id fileID) bool { return len(s.modulesOf(id)) > 0 }

// modulesOf lists what the source knows a probed file as. Provider.mu is held.
func (s *source) modulesOf(id fileID) (list []*module) {
	add := func(m *module) {
		if m.id == id && !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	for _, w := range s.resolution.wants {
		add(w.module)
	}
	for _, l := range s.resolution.landmarks {
		add(l.module)
	}
	return list
}

// hasWritten reports whether somebody has written into a file since it was probed, and
// that was told. Provider.mu is held.
func (s *source) hasWritten(id fileID) bool {
	return slices.ContainsFunc(s.modulesOf(id), func(m *module) bool { return m.written })
}

// abandon takes the probes of a file away, for good, and tells the sink.
func (s *source) abandon(id fileID) {
	s.flip.Lock()
	defer s.flip.Unlock()
	p := s.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.active[s]
	if in == nil {
		return
	}
	if s.stopped { // and Stop is about to take all away
		in.detach()
		return
	}
	path := ""
	for _, m := range s.modulesOf(id) {
		m.written, path = true, m.path
	}
	of := func(l *link) bool { return l.file == id }
	for _, l := range in.links {
		if of(l) {
			l.close()
		}
	}
	in.links = slices.DeleteFunc(slices.Clone(in.links), of)
	p.reader.do(func() {
		s.sub.sink.Lost(fmt.Sprintf("calls in %s from when somebody opened it to write", path), 1)
	})
}

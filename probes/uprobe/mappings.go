package uprobe

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"endoscope/probes/clock"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/resolve"
	"endoscope/probes/uprobe/selection"
)

// look finds modules that processes of the target have mapped without a notification.
func (g *growing) look() {
	running, err := process.Resolve(g.spec.Target)
	if err != nil {
		return // they have ended
	}
	for _, p := range running {
		mappings, _ := process.Modules(p.PID)
		for _, mp := range mappings {
			g.probeOnce(selection.Mapping{Process: p, Mapping: mp})
		}
	}
}

// unwatch ends the watch. No parts are added afterwards; mappings that were not probed
// have been reported.
func (g *growing) unwatch(watch *process.MapWatch) {
	watch.Close()
	close(g.mappings)
	g.looking.Wait()
}

// queueMapping is called for each executable mapping on the machine.
func (g *growing) queueMapping(m process.Mapped) {
	if ok, err := g.pending.InModule("", "", filepath.Base(m.Path)); err != nil || !ok {
		return
	}
	if !g.byName() && !g.names(m.PID) {
		return
	}
	g.mu.Lock()
	as, known := g.known[g.key(process.FileID{Dev: m.Dev, Inode: m.Inode}, m.PID)]
	g.mu.Unlock()
	if known && as == 0 {
		return
	}
	select {
	case g.mappings <- m:
	default:
		g.recordsLost(1)
	}
}

// mapped examines a mapping, if a process of the target made it.
func (g *growing) mapped(m process.Mapped) {
	named := g.names(m.PID)
	p, runs := process.Lookup(m.PID)
	if !named && !(runs && g.matcher.Matches(p)) && !g.matcher.MatchesProgram(m.Program) {
		return
	}
	// The current state of maps: whether the file has a name, and the extent of the
	// mapping.
	mappings, _ := process.Modules(m.PID)
	there := false
	for _, mp := range mappings {
		if mp.Dev == m.Dev && mp.Inode == m.Inode {
			g.probeOnce(selection.Mapping{Process: p, Mapping: mp, At: m.Time})
			there = true
		}
	}
	if !there {
		if !runs || !named && !g.matcher.Matches(p) {
			p = process.Process{PID: m.PID} // the pid belongs to another process now
		}
		g.probeOnce(selection.Mapping{Process: p, Mapping: m.Mapping, At: m.Time, Left: true})
	}
}

// names reports whether a process is in the target by its pid, or follows one of the target.
func (g *growing) names(pid int) bool {
	if slices.Contains(g.spec.Target.PIDs, pid) {
		return true
	}
	switch first := g.first(); {
	case !g.spec.Target.Follow:
		return false
	case first == nil: // nobody follows yet
		return slices.Contains(process.Descendants(g.spec.Target.PIDs), pid)
	default:
		return first.follows(pid)
	}
}

// byName reports whether the target contains processes other than those given by pid.
func (g *growing) byName() bool { return g.spec.Target.Grows() }

// recordsLost is called when the kernel had no room for n notifications of mappings, starts
// or ends of processes.
func (g *growing) recordsLost(n uint64) {
	g.merge.lost("calls in libraries, perhaps: the kernel had no room to report all mappings", n)
	g.look()
}

// probeOnce probes a mapping unless that has been done.
func (g *growing) probeOnce(f selection.Mapping) {
	name := filepath.Base(f.Mapping.Path)
	if ok, err := g.pending.InModule("", "", name); err != nil || !ok {
		return
	}
	key := g.key(process.FileID{Dev: f.Mapping.Dev, Inode: f.Mapping.Inode}, f.Process.PID)
	g.mu.Lock()
	as, known := g.known[key]
	g.mu.Unlock()
	if known && as == 0 {
		return
	}
	changed, there := f.Changed()
	if known && (!there || changed == as) {
		return
	}
	if !there && f.Left {
		g.merge.lost(fmt.Sprintf("calls in %s, which was gone before it could be probed", name), 1)
		return
	}
	g.mu.Lock()
	now, still := g.known[key]
	over := still != known || now != as // another goroutine was first
	grown := len(g.parts)
	if !over {
		g.known[key] = 0
	}
	g.mu.Unlock()
	if over {
		return
	}
	if grown >= maxGrown {
		g.merge.lost(fmt.Sprintf("more than %d modules loaded", maxGrown), 1)
		return
	}
	if g.probes(&f) {
		return
	}
	err := g.grow(&f)
	if err != nil && !f.Left && !f.Still() {
		f.Left = true // it was unmapped meanwhile: what was found does not count
		err = g.grow(&f)
	}
	if err != nil {
		g.allowRetry(key, changed, f.At, err)
		g.refuse(name, err)
		return
	}
	g.mu.Lock()
	if first := g.since[key]; first != 0 {
		f.At = first
	}
	g.mu.Unlock()
	if f.At == 0 {
		g.merge.lost(fmt.Sprintf("calls in %s before it was probed", name), 1)
		return
	}
	gap := time.Duration(clock.Boot() - f.At)
	g.merge.lost(fmt.Sprintf("calls in %s from its mapping until it was probed, a gap of %v", name, gap.Round(10*time.Microsecond)), 1)
}

// probes reports whether a part has probes, for all processes of the target, on the file of a
// mapping: containers see one file of their image in different places.
func (g *growing) probes(f *selection.Mapping) bool {
	id, ok := f.ID()
	if !ok || !g.byName() {
		return false
	}
	g.mu.Lock()
	parts := slices.Clone(g.parts)
	g.mu.Unlock()
	g.provider.mu.Lock()
	defer g.provider.mu.Unlock()
	return slices.ContainsFunc(parts, func(s *source) bool { return s.probes(id) })
}

// allowRetry allows another attempt for a file that was not probed because of err, when any
// process maps it next: the cause may have been this process, or the moment. A file
// without matching functions is tried again only after it has changed.
func (g *growing) allowRetry(key mappedIn, changed selection.Change, at int64, err error) {
	var none *resolve.NoFunction
	g.mu.Lock()
	defer g.mu.Unlock()
	if errors.As(err, &none) {
		g.known[key] = changed
	} else {
		delete(g.known, key)
		if g.since[key] == 0 && len(g.since) < maxHeard {
			g.since[key] = at
		}
	}
}

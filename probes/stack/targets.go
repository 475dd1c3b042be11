package stack

import (
	"slices"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes/process"
)

// rescan is the minimum interval between searches of /proc for processes that match a
// name or an executable, and between rereads of the names of known processes.
const rescan = 100 * time.Millisecond

// targets tracks the processes that match a target.
type targets struct {
	pinned  []process.Process // those named by pid
	viewer  *plan.Viewer
	matcher *process.Matcher
	grows   bool // names and executables also match processes that start later
	running map[int]*process.Process
	scanned time.Time
}

// newTargets returns the state for a target and the processes that match it now.
func newTargets(t plan.Target, now []process.Process) *targets {
	ts := &targets{viewer: t.Viewer, matcher: process.NewMatcher(t), grows: len(t.Processes)+len(t.Exes) > 0, running: map[int]*process.Process{}}
	for _, p := range now {
		if slices.Contains(t.PIDs, p.PID) {
			ts.pinned = append(ts.pinned, p)
		}
	}
	return ts
}

// refresh adds the processes that match now, and removes those that no longer match. A
// process that reuses a pid is a different process.
func (t *targets) refresh() error {
	now := time.Now()
	if now.Sub(t.scanned) < rescan && t.viewer.Everything() {
		return nil
	}
	t.scanned = now
	var found []process.Process
	if t.grows {
		all, err := process.List()
		if err != nil {
			return err
		}
		found = slices.DeleteFunc(all, func(p process.Process) bool { return !t.isPinned(p) && !t.matcher.Matches(p) })
	} else {
		for _, q := range t.pinned {
			if p, ok := process.Lookup(q.PID); ok && t.isPinned(p) {
				found = append(found, p)
			}
		}
	}
	clear(t.running)
	for i := range found {
		t.running[found[i].PID] = &found[i]
	}
	return nil
}

func (t *targets) isPinned(p process.Process) bool {
	return slices.ContainsFunc(t.pinned, func(q process.Process) bool { return q.PID == p.PID && q.StartTime == p.StartTime }) &&
		process.Visible(t.viewer, p.PID)
}

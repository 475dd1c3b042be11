package stack

import (
	"slices"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes/process"
)

// rescan is how often, at most, /proc is searched for processes that a name or
// an executable means now, and the names of those known are read again.
const rescan = 100 * time.Millisecond

// targets are the processes that a target means, as they come and go.
type targets struct {
	pinned  []process.Process // those named by pid
	viewer  *plan.Viewer
	matcher *process.Matcher
	grows   bool // names and executables also mean processes that start later
	running map[int]*process.Process
	scanned time.Time
}

// newTargets takes a target and the processes that it means now.
func newTargets(t plan.Target, now []process.Process) *targets {
	ts := &targets{viewer: t.Viewer, matcher: process.NewMatcher(t), grows: len(t.Processes)+len(t.Exes) > 0, running: map[int]*process.Process{}}
	for _, p := range now {
		if slices.Contains(t.PIDs, p.PID) {
			ts.pinned = append(ts.pinned, p)
		}
	}
	return ts
}

// refresh takes in the processes that match now, and forgets those that match
// no longer. A process whose number another one has got is another.
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

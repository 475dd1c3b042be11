package process

import (
	"fmt"
	"slices"

	"endoscope/planner/plan"
)

// Group is the processes of a target, those that start later included.
type Group struct {
	pinned  []Process // those given by pid
	viewer  *plan.Viewer
	matcher *Matcher
	grows   bool // processes that start later may match by name or executable
}

// NewGroup returns the group of a target. now are the processes that match it
// now; of those given by pid, later ones with the same pid do not belong to it.
func NewGroup(t plan.Target, now []Process) *Group {
	return &Group{
		pinned: slices.DeleteFunc(slices.Clone(now), func(p Process) bool { return !slices.Contains(t.PIDs, p.PID) }),
		viewer: t.Viewer, matcher: NewMatcher(t), grows: len(t.Processes)+len(t.Exes) > 0,
	}
}

// Candidates returns the processes that may belong to the group: all, or those
// given by pid.
func (g *Group) Candidates() ([]Process, error) {
	if g.grows {
		return List()
	}
	var out []Process
	for _, q := range g.pinned {
		if p, ok := Lookup(q.PID); ok {
			out = append(out, p)
		}
	}
	return out, nil
}

// Includes reports whether a process belongs to the group, and is visible.
func (g *Group) Includes(p Process) bool {
	return slices.ContainsFunc(g.pinned, func(q Process) bool {
		return q.PID == p.PID && q.StartTime == p.StartTime && Visible(g.viewer, p.PID)
	}) || g.matcher.Matches(p)
}

// MayChange reports whether a viewer limits the group, so that what it includes
// may change at any time.
func (g *Group) MayChange() bool { return !g.viewer.Everything() }

// Identify returns a text that is equal for the same processes only.
func Identify(list []Process) (id string) {
	for _, p := range list {
		id += fmt.Sprintf(" %d@%d", p.PID, p.StartTime)
	}
	return id
}

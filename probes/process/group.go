package process

import (
	"cmp"
	"fmt"
	"slices"

	"endoscope/planner/plan"
)

// Group is the processes of a target, those that start later included.
type Group struct {
	pinned  []Process // those given by pid
	viewer  *plan.Viewer
	matcher *Matcher
	grows   bool      // processes that start later may match by name or executable
	follows bool      // descendants belong to it
	family  []Process // with follows: those that belonged to it at the last call of Candidates
}

// NewGroup returns the group of a target. now are the processes that match it
// now; of those given by pid, later ones with the same pid do not belong to it.
// Where the target includes descendants, they are found by Candidates: not those whose
// ancestors had all ended before they were found.
func NewGroup(t plan.Target, now []Process) *Group {
	return &Group{
		pinned: slices.DeleteFunc(slices.Clone(now), func(p Process) bool { return !slices.Contains(t.PIDs, p.PID) }),
		viewer: t.Viewer, matcher: NewMatcher(t), grows: t.Grows(), follows: t.Follow,
	}
}

// Candidates returns the processes that may belong to the group: all, or those
// given by pid and their descendants, by pid.
func (g *Group) Candidates() ([]Process, error) {
	all, err := g.candidates()
	if err == nil && g.follows {
		all = g.follow(all)
	}
	return all, err
}

// follow sets the family, and returns all with its members.
func (g *Group) follow(all []Process) []Process {
	var members []Process
	known := map[int]bool{}
	add := func(p Process) {
		if !known[p.PID] {
			known[p.PID] = true
			members = append(members, p)
		}
	}
	for _, p := range all {
		if g.isNamed(p) {
			add(p)
		}
	}
	for _, q := range g.family {
		if p, ok := Lookup(q.PID); ok && p.StartTime == q.StartTime {
			add(p)
		}
	}
	pids := make([]int, len(members))
	for i, p := range members {
		pids[i] = p.PID
	}
	for _, pid := range Descendants(pids) {
		if p, ok := Lookup(pid); ok {
			add(p)
		}
	}
	g.family = members
	all = append(all, members...)
	slices.SortStableFunc(all, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
	return slices.CompactFunc(all, func(a, b Process) bool { return a.PID == b.PID })
}

func (g *Group) candidates() ([]Process, error) {
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
	return g.isNamed(p) || slices.ContainsFunc(g.family, g.is(p))
}

// isNamed reports whether a process belongs to the group by its own properties.
func (g *Group) isNamed(p Process) bool {
	return slices.ContainsFunc(g.pinned, g.is(p)) || g.matcher.Matches(p)
}

// is returns a test for p, which fails if p is not visible.
func (g *Group) is(p Process) func(Process) bool {
	return func(q Process) bool {
		return q.PID == p.PID && q.StartTime == p.StartTime && Visible(g.viewer, p.PID)
	}
}

// Grows reports whether other processes may join the group.
func (g *Group) Grows() bool { return g.grows || g.follows }

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

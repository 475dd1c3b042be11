package plan

import (
	"slices"

	"endoscope/planner/types"
)

// Consistent emits the selected events of a program, and the others that are needed to make
// them consistent (operators/consistency). The last column of its input marks the selected
// rows. It is replaced by catch_up, BOOLEAN, true for rows that were not selected, and
// original_time, when a row that is reported later happened.
type Consistent struct {
	Input Node
	Roles EventRoles
	Out   types.Schema
}

// EventRoles are the column indexes of an event; -1: the source has no such column.
type EventRoles struct {
	Event, Entity                                                        int // these are required
	Category, Parent, Other, ThreadID, ThreadName, Name, TypeName, Began int
}

func (n *Consistent) Schema() types.Schema      { return n.Out }
func (n *Consistent) Inputs() []Node            { return []Node{n.Input} }
func (n *Consistent) WithInputs(in []Node) Node { c := *n; c.Input = in[0]; return &c }
func (*Consistent) node()                       {}
func (*Consistent) Describe() string            { return "consistent" }

// Tracked returns the acquisitions whose events a Consistent tracks, whether or not they
// are reported.
func Tracked(root Node) map[*Acquire]bool {
	out := map[*Acquire]bool{}
	var walk func(n Node, below bool)
	walk = func(n Node, below bool) {
		if _, ok := n.(*Consistent); ok {
			below = true
		}
		if a, ok := n.(*Acquire); ok && below {
			out[a] = true
		}
		for _, in := range n.Inputs() {
			walk(in, below)
		}
	}
	walk(root, false)
	return out
}

// ThreadColumn returns the column of an acquisition with thread names, which SUSPEND THREAD
// uses; -1: there is none that is reliable.
func ThreadColumn(a *Acquire) int {
	i := slices.IndexFunc(a.Out.Fields, func(f types.Field) bool { return f.Name == "thread_name" && f.Type == types.Varchar })
	if slices.Contains(a.FilterOnly, i) {
		return -1
	}
	return i
}

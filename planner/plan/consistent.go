package plan

import (
	"slices"

	"endoscope/planner/types"
)

// Consistent reports what is selected of a program's events, and what of the
// others it takes for that to be consistent (operators/consistency). The last
// column of its input says which rows are selected; in its place come catch_up,
// BOOLEAN, for rows that were not, and original_time, when a row happened that is
// reported later.
type Consistent struct {
	Input Node
	Roles EventRoles
	Out   types.Schema
}

// EventRoles are the columns of an event, by index; -1: the source has none.
type EventRoles struct {
	Event, Entity                                                        int // these are needed
	Category, Parent, Other, ThreadID, ThreadName, Name, TypeName, Began int
}

func (n *Consistent) Schema() types.Schema      { return n.Out }
func (n *Consistent) Inputs() []Node            { return []Node{n.Input} }
func (n *Consistent) WithInputs(in []Node) Node { c := *n; c.Input = in[0]; return &c }
func (*Consistent) node()                       {}
func (*Consistent) Describe() string            { return "consistent" }

// Tracked are the acquisitions whose events a Consistent keeps track of, whether
// or not they are reported.
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

// ThreadColumn is the column of an acquisition that has the names of threads, by
// which SUSPEND THREAD goes; -1: there is none that can be relied upon.
func ThreadColumn(a *Acquire) int {
	i := slices.IndexFunc(a.Out.Fields, func(f types.Field) bool { return f.Name == "thread_name" && f.Type == types.Varchar })
	if slices.Contains(a.FilterOnly, i) {
		return -1
	}
	return i
}

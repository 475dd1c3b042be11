package plan

// Consistent reports what is selected of a program's events, and what of the
// others it takes for that to be consistent (operators/consistency). The last
// column of its input says which rows are selected; in its place come catch_up,
// BOOLEAN, for rows that were not, and original_time, when a row happened that is
// reported later.
type Consistent struct {
	Input Node
	Roles EventRoles
	Out   Schema
}

// EventRoles are the columns of an event, by index; -1: the source has none.
type EventRoles struct {
	Event, Entity                                                 int // these are needed
	Category, Parent, Other, ThreadID, ThreadName, Name, TypeName int
}

func (n *Consistent) Schema() Schema            { return n.Out }
func (n *Consistent) Inputs() []Node            { return []Node{n.Input} }
func (n *Consistent) WithInputs(in []Node) Node { c := *n; c.Input = in[0]; return &c }
func (*Consistent) node()                       {}
func (*Consistent) Describe() string            { return "consistent" }

package plan

import (
	"slices"
	"time"

	"endoscope/planner/types"
)

// JoinKind selects the pairs of rows that a Join emits.
type JoinKind uint8

// Kinds of join.
const (
	// WindowJoin emits every pair of rows at most Within apart that satisfies On.
	WindowJoin JoinKind = iota
	// LeftWindowJoin also emits each left row without a partner, with NULLs.
	LeftWindowJoin
	// AsOfJoin joins each left row with the latest right row that is not later and
	// satisfies On, if there is one.
	AsOfJoin
	// ValueJoin joins each left row with the right input's rows that satisfy On, acquired
	// when the left row arrives.
	ValueJoin
)

// Join pairs rows of two inputs by their times and a condition. Its columns are the left
// input's, then the right one's; its event time is the left one's.
type Join struct {
	Left, Right Node
	Kind        JoinKind
	Within      time.Duration // of window joins
	// Followed is 1 if the right row must be later than the left one, -1 if it must be
	// earlier, 0 if either is allowed.
	Followed int
	On       Expr // over Out; nil: true
	// Anti is set if only the left rows of a LeftWindowJoin without a partner are used: it
	// emits no pairs, and need not keep a left row that has found a partner.
	Anti bool
	Out  types.Schema
}

// Band returns the range of the right row's time less the left one's.
func (n *Join) Band() (lo, hi int64) {
	d := int64(n.Within)
	switch {
	case n.Followed > 0:
		return 1, d
	case n.Followed < 0:
		return -d, -1
	}
	return -d, d
}

// NewJoin sets the schema of n.
func NewJoin(n Join) *Join {
	l, r := n.Left.Schema(), n.Right.Schema()
	n.Out = types.Schema{Fields: slices.Concat(l.Fields, r.Fields), Time: l.Time}
	return &n
}

func (n *Join) Schema() types.Schema { return n.Out }
func (n *Join) Inputs() []Node       { return []Node{n.Left, n.Right} }
func (n *Join) WithInputs(in []Node) Node {
	c := *n
	c.Left, c.Right = in[0], in[1]
	return &c
}
func (*Join) node() {}

func (n *Join) Describe() string {
	var s string
	switch n.Kind {
	case AsOfJoin:
		s = "join as of"
	case ValueJoin:
		s = "join with value"
	default:
		s = "join within " + formatStd(n.Within)
		switch {
		case n.Followed > 0:
			s += " later"
		case n.Followed < 0:
			s += " earlier"
		}
	}
	switch {
	case n.Anti:
		s = "left anti " + s
	case n.Kind == LeftWindowJoin:
		s = "left " + s
	}
	if n.On != nil {
		s += " on " + n.qualified().String()
	}
	return s
}

// qualified returns On with the columns qualified by their relations.
func (n *Join) qualified() Expr {
	return Transform(n.On, func(e Expr) Expr {
		c, ok := e.(*Col)
		if !ok || c.Index >= len(n.Out.Fields) || n.Out.Fields[c.Index].Qualifier == "" {
			return e
		}
		return &Col{Index: c.Index, Name: n.Out.Fields[c.Index].Qualifier + "." + c.Name, T: c.T}
	})
}

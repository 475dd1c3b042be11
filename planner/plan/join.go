package plan

import (
	"slices"
	"time"

	"endoscope/planner/types"
)

// JoinKind says which pairs of rows a Join gives.
type JoinKind uint8

// Kinds of join.
const (
	// WindowJoin gives every pair of rows at most Within apart for which On holds.
	WindowJoin JoinKind = iota
	// LeftWindowJoin gives, besides, each left row without a partner, with NULLs.
	LeftWindowJoin
	// AsOfJoin gives each left row with the latest right row that is not later
	// and for which On holds, if there is one.
	AsOfJoin
	// ValueJoin gives each left row with the right input's rows for which On
	// holds, acquired when the left row arrives.
	ValueJoin
)

// Join pairs rows of two inputs by their times and a condition. Its columns are
// the left input's, then the right one's; its event time is the left one's.
type Join struct {
	Left, Right Node
	Kind        JoinKind
	Within      time.Duration // of window joins
	// Followed is 1 if the right row must be later than the left one, -1 if
	// it must be earlier, 0 if both will do.
	Followed int
	On       Expr // over Out; nil: true
	// Anti is set of a LeftWindowJoin of which only the left rows without a
	// partner are wanted: no pair is given, and a left row that has found a
	// partner need not be kept.
	Anti bool
	Out  types.Schema
}

// Band is the range in which the right row's time lies, less the left one's.
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

// NewJoin gives n its schema.
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

// qualified is On with the columns called by what they belong to.
func (n *Join) qualified() Expr {
	return Transform(n.On, func(e Expr) Expr {
		c, ok := e.(*Col)
		if !ok || c.Index >= len(n.Out.Fields) || n.Out.Fields[c.Index].Qualifier == "" {
			return e
		}
		return &Col{Index: c.Index, Name: n.Out.Fields[c.Index].Qualifier + "." + c.Name, T: c.T}
	})
}

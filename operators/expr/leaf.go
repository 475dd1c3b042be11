package expr

import (
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// colNode is a column of the batch.
type colNode struct{ index int }

func (n *colNode) eval(f *frame, _ rows) (*batch.Column, error) {
	return &f.cols[n.index], nil
}

// constNode is a constant. It is expanded to a column only for kernels without a form for
// constants.
type constNode struct {
	v      types.Value
	out    output
	filled int
}

func newConst(v types.Value) *constNode {
	return &constNode{v: v, out: newOutput(v.Type)}
}

func (n *constNode) eval(_ *frame, r rows) (*batch.Column, error) {
	if n.filled < r.n {
		n.out.begin(r.n)
		for i := range r.n {
			n.out.setValue(i, n.v)
		}
		n.filled = r.n
	}
	return n.out.end(), nil
}

// constant returns n's value if n is a constant.
func constant(n node) (types.Value, bool) {
	if c, ok := n.(*constNode); ok {
		return c.v, true
	}
	return types.Value{}, false
}

// constText returns the text of a constant argument, for patterns and units that are
// compiled once.
func constText(n node) (string, bool) {
	v, ok := constant(n)
	return v.S, ok && !v.IsNull
}

// refuse returns an error at the position of e, if e is a literal with a position.
func refuse(e plan.Expr, format string, args ...any) *plan.Error {
	if c, ok := e.(*plan.Const); ok && c.Stop > c.Start {
		return plan.Errorf(c.Start, c.Stop, format, args...)
	}
	return plan.Errorf(-1, -1, format, args...)
}

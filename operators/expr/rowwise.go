package expr

import (
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// rowNode computes row by row, for functions without a vector form: mostly text functions,
// which usually run once per dictionary entry.
type rowNode struct {
	args []node
	cols []*batch.Column
	lax  bool // f also receives NULL arguments
	f    rowFunc
	out  output
}

// rowFunc computes row i of o from the arguments' columns.
type rowFunc func(o *output, args []*batch.Column, i int) error

// rowwise returns the builder of a strict function that needs no preparation.
func rowwise(f rowFunc) builder {
	return func(e *plan.Call, args []node) (node, error) { return newRowNode(e.T, args, f), nil }
}

func newRowNode(t types.Type, args []node, f rowFunc) *rowNode {
	return &rowNode{args: args, cols: make([]*batch.Column, len(args)), f: f, out: newOutput(t)}
}

func (n *rowNode) eval(f *frame, r rows) (*batch.Column, error) {
	for k, a := range n.args {
		var err error
		if n.cols[k], err = a.eval(f, r); err != nil {
			return nil, err
		}
	}
	n.out.begin(r.n)
	if !n.lax {
		n.out.inheritNulls(r, n.cols...)
	}
	for k := range r.len() {
		i := r.at(k)
		if !n.lax && n.out.col.Nulls.Get(i) {
			continue
		}
		if err := n.f(&n.out, n.cols, i); err != nil {
			return nil, err
		}
	}
	return n.out.end(), nil
}

// outcome is the result state of one row.
type outcome uint8

const (
	valid      outcome = iota
	isNothing          // NULL
	outOfRange         // an error that names the result's type and the expression
)

func rangeError(e plan.Expr) error {
	return plan.Errorf(-1, -1, "%s out of range in %s", e.Type(), e)
}

// mapNode applies a strict function of one argument.
type mapNode[X, O scalar] struct {
	e   plan.Expr
	x   node
	f   func(X) (O, outcome)
	out output
}

func newMap[X, O scalar](e plan.Expr, x node, f func(X) (O, outcome)) node {
	return &mapNode[X, O]{e: e, x: x, f: f, out: newOutput(e.Type())}
}

func (n *mapNode[X, O]) eval(f *frame, r rows) (*batch.Column, error) {
	x, err := n.x.eval(f, r)
	if err != nil {
		return nil, err
	}
	n.out.begin(r.n)
	n.out.inheritNulls(r, x)
	nulls := len(n.out.col.Nulls) > 0
	xs, out := vec[X](x), vec[O](&n.out.col)
	for k := range r.len() {
		i := r.at(k)
		if nulls && x.Nulls.Get(i) {
			continue
		}
		v, what := n.f(xs[i])
		out[i] = v
		if what == valid {
			continue
		}
		if what == outOfRange {
			return nil, rangeError(n.e)
		}
		n.out.setNull(i)
	}
	return n.out.end(), nil
}

// vectorNode applies a strict function of one argument that is defined everywhere, by a
// kernel over the whole vector.
type vectorNode[X, O scalar] struct {
	x      node
	kernel func(out []O, x []X, r rows)
	out    output
}

func newVector[X, O scalar](t types.Type, x node, kernel func(out []O, x []X, r rows)) node {
	return &vectorNode[X, O]{x: x, kernel: kernel, out: newOutput(t)}
}

func (n *vectorNode[X, O]) eval(f *frame, r rows) (*batch.Column, error) {
	x, err := n.x.eval(f, r)
	if err != nil {
		return nil, err
	}
	n.out.begin(r.n)
	n.kernel(vec[O](&n.out.col), vec[X](x), r)
	n.out.inheritNulls(r, x)
	return n.out.end(), nil
}

// pairNode applies a strict function of two arguments.
type pairNode[X, Y, O scalar] struct {
	e    plan.Expr
	x, y node
	f    func(X, Y) (O, outcome)
	out  output
}

func newPair[X, Y, O scalar](e *plan.Call, args []node, f func(X, Y) (O, outcome)) node {
	return &pairNode[X, Y, O]{e: e, x: args[0], y: args[1], f: f, out: newOutput(e.T)}
}

func (n *pairNode[X, Y, O]) eval(f *frame, r rows) (*batch.Column, error) {
	x, err := n.x.eval(f, r)
	if err != nil {
		return nil, err
	}
	y, err := n.y.eval(f, r)
	if err != nil {
		return nil, err
	}
	n.out.begin(r.n)
	n.out.inheritNulls(r, x, y)
	nulls := len(n.out.col.Nulls) > 0
	xs, ys, out := vec[X](x), vec[Y](y), vec[O](&n.out.col)
	for k := range r.len() {
		i := r.at(k)
		if nulls && n.out.col.Nulls.Get(i) {
			continue
		}
		v, what := n.f(xs[i], ys[i])
		out[i] = v
		if what == valid {
			continue
		}
		if what == outOfRange {
			return nil, rangeError(n.e)
		}
		n.out.setNull(i)
	}
	return n.out.end(), nil
}

package expr

import (
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// junction is AND or OR of two predicates in three-valued logic. The second is evaluated
// only for rows that the first does not decide.
type junction struct {
	left, right predicate
	decides     bool // the value that decides alone: false for AND, true for OR
	out         output
	a, b, open  []uint16
	marked      marks
}

func and(_ *plan.Call, args []node) (node, error) { return newJunction(args, false), nil }
func or(_ *plan.Call, args []node) (node, error)  { return newJunction(args, true), nil }

func newJunction(args []node, decides bool) node {
	return &junction{left: asPredicate(args[0]), right: asPredicate(args[1]), decides: decides, out: newOutput(types.Boolean)}
}

func (n *junction) choose(f *frame, r rows, want bool, dst []uint16) ([]uint16, error) {
	if want == n.decides {
		return n.either(f, r, want, dst)
	}
	return n.both(f, r, want, dst)
}

// both narrows the selection step by step.
func (n *junction) both(f *frame, r rows, want bool, dst []uint16) (_ []uint16, err error) {
	if n.a, err = n.left.choose(f, r, want, n.a[:0]); err != nil {
		return nil, err
	}
	if len(n.a) == 0 {
		return dst, nil
	}
	return n.right.choose(f, r.subset(n.a), want, dst)
}

// either evaluates the second side for the rows that the first did not decide, and merges
// the results.
func (n *junction) either(f *frame, r rows, want bool, dst []uint16) (_ []uint16, err error) {
	if n.a, err = n.left.choose(f, r, want, n.a[:0]); err != nil {
		return nil, err
	}
	n.marked.only(n.a, r.n)
	n.open = chooseBool(n.marked, false, r, n.open[:0])
	if len(n.open) == 0 {
		return append(dst, n.a...), nil
	}
	if n.b, err = n.right.choose(f, r.subset(n.open), want, n.b[:0]); err != nil {
		return nil, err
	}
	n.marked.add(n.b)
	return chooseBool(n.marked, true, r, dst), nil
}

// eval computes the truth value: the deciding value if either side has it, else NULL if
// either is NULL, else the other value.
func (n *junction) eval(f *frame, r rows) (*batch.Column, error) {
	l, err := n.left.eval(f, r)
	if err != nil {
		return nil, err
	}
	n.out.begin(r.n)
	n.open = n.open[:0]
	for k := range r.len() {
		i := r.at(k)
		switch {
		case isNull(l, i):
			n.out.setNull(i)
			n.open = append(n.open, uint16(i))
		case l.Bool[i] == n.decides:
			n.out.col.Bool[i] = n.decides
		default:
			n.out.col.Bool[i] = !n.decides
			n.open = append(n.open, uint16(i))
		}
	}
	if len(n.open) == 0 {
		return n.out.end(), nil
	}
	right, err := n.right.eval(f, r.subset(n.open))
	if err != nil {
		return nil, err
	}
	for _, row := range n.open {
		i := int(row)
		switch {
		case isNull(right, i):
			n.out.setNull(i)
		case right.Bool[i] == n.decides:
			n.out.col.Bool[i] = n.decides
			n.out.clearNull(i)
		}
	}
	return n.out.end(), nil
}

// isNull also returns true for every row of the literal NULL.
func isNull(c *batch.Column, i int) bool {
	return c.Type == types.Null || c.Nulls.Get(i)
}

// notNode is NOT: it chooses the rows that its argument chooses for the opposite value.
type notNode struct {
	x   predicate
	out output
}

func not(_ *plan.Call, args []node) (node, error) {
	return &notNode{x: asPredicate(args[0]), out: newOutput(types.Boolean)}, nil
}

func (n *notNode) choose(f *frame, r rows, want bool, dst []uint16) ([]uint16, error) {
	return n.x.choose(f, r, !want, dst)
}

func (n *notNode) eval(f *frame, r rows) (*batch.Column, error) {
	x, err := n.x.eval(f, r)
	if err != nil {
		return nil, err
	}
	n.out.begin(r.n)
	r.each(func(i int) { n.out.col.Bool[i] = !x.Bool[i] })
	n.out.inheritNulls(r, x)
	return n.out.end(), nil
}

// isNullNode reads the bitmap only.
type isNullNode struct {
	x   node
	out output
}

func isNullCall(_ *plan.Call, args []node) (node, error) {
	return &isNullNode{x: args[0], out: newOutput(types.Boolean)}, nil
}

func (n *isNullNode) choose(f *frame, r rows, want bool, dst []uint16) ([]uint16, error) {
	x, err := n.x.eval(f, r)
	if err != nil {
		return nil, err
	}
	if x.Type == types.Null {
		if want {
			return r.appendTo(dst), nil
		}
		return dst, nil
	}
	if !want {
		from := len(dst)
		return dropNulls(r.appendTo(dst), from, x.Nulls), nil
	}
	if !x.Nulls.Any() {
		return dst, nil
	}
	from := len(dst)
	return keepNulls(r.appendTo(dst), from, x.Nulls), nil
}

func (n *isNullNode) eval(f *frame, r rows) (*batch.Column, error) {
	x, err := n.x.eval(f, r)
	if err != nil {
		return nil, err
	}
	n.out.begin(r.n)
	for k := range r.len() {
		i := r.at(k)
		n.out.col.Bool[i] = isNull(x, i)
	}
	return n.out.end(), nil
}

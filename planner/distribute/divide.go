package distribute

import (
	"slices"
	"strconv"

	"endoscope/planner/plan"
	"endoscope/planner/rules"
	"endoscope/planner/types"
)

// Division is a plan in two parts: one that the server executes, and the fragment
// above it that its client may execute.
type Division struct {
	Base     plan.Node
	Columns  []int // of Base: those that the fragment reads
	Fragment *plan.Fragment
	// Tested is set if the fragment begins with the residual filter of Base's source.
	Tested bool
}

// Divide divides a plan. left returns the part of an acquisition's filter that its
// source does not test: if the base is one acquisition, the fragment tests that
// part. Divide returns nil if nothing can be executed elsewhere:
//
//   - joins, unions and consistency depend on the times at which several
//     acquisitions emit rows, and an INSERT on the server's files;
//   - an aggregate that the kernel has begun is not begun again;
//   - now() is when the server processes a row.
func Divide(root plan.Node, left func(*plan.Acquire) plan.Expr) *Division {
	spine, base := movable(root)
	from := &plan.Acquire{Stream: plan.FragmentStream, Out: types.Schema{Time: base.Schema().Time}}
	for i, f := range base.Schema().Fields {
		from.Out.Fields = append(from.Out.Fields, types.Field{Name: strconv.Itoa(i), Type: f.Type})
	}
	d := &Division{Base: base, Fragment: &plan.Fragment{}}
	if a, ok := base.(*plan.Acquire); ok {
		if a.Partial != nil || a.OnDemand {
			return nil
		}
		if cond := left(a); cond != nil {
			test := &plan.Filter{Cond: cond}
			if !rules.Stable(test) {
				return nil
			}
			spine, d.Tested = append(spine, test), true
		}
	}
	if len(spine) == 0 {
		return nil
	}
	// A source need not fill the columns that only its filter reads.
	spine, leaf := movable(rules.Prune(chain(spine, from)))
	from = leaf.(*plan.Acquire)
	for _, f := range from.Out.Fields {
		i, _ := strconv.Atoi(f.Name) // a number, set above
		d.Columns = append(d.Columns, i)
	}
	// Lower consists of the operators that keep no state between rows.
	above := len(spine)
	for above > 0 && remembersNothing(spine[above-1]) {
		above--
	}
	d.Fragment.Lower = chain(spine[above:], from)
	between := plan.Acquire{Stream: plan.FragmentStream, Out: d.Fragment.Lowered()}
	d.Fragment.Upper = chain(spine[:above], &between)
	if p := rules.FirstStage(d.Fragment.Upper); p != nil {
		with := between
		with.Partial = p
		d.Fragment.Upper = chain(spine[:above], &with)
	}
	return d
}

// Site reports whether a node of the divided plan is in Upper or in Lower; if
// neither, it is in the base.
func (d *Division) Site(root, n plan.Node) (upper, lower bool) {
	above := plan.Depth(d.Fragment.Upper)
	for x := root; x != d.Base; x = x.Inputs()[0] {
		if x == n {
			return above > 0, above <= 0
		}
		above--
	}
	return false, false
}

// movable returns the nodes from the root down that a client may execute, and the
// node below them.
func movable(root plan.Node) (spine []plan.Node, base plan.Node) {
	for n := root; ; n = n.Inputs()[0] {
		switch x := n.(type) {
		case *plan.Filter, *plan.Project, *plan.Aggregate, *plan.Distinct, *plan.Sort:
		case *plan.Limit:
			if !x.PerFlush {
				return spine, n // it ends the query: the server counts what was lost until then
			}
		case *plan.Window:
			if x.Hold {
				return spine, n
			}
		default:
			return spine, n
		}
		if !rules.Stable(n) {
			return spine, n
		}
		spine = append(spine, n)
	}
}

func remembersNothing(n plan.Node) bool {
	switch n.(type) {
	case *plan.Filter, *plan.Project:
		return true
	}
	return false
}

// chain chains nodes, the topmost first, above a leaf.
func chain(spine []plan.Node, leaf plan.Node) plan.Node {
	for _, n := range slices.Backward(spine) {
		leaf = n.WithInputs([]plan.Node{leaf})
	}
	return leaf
}

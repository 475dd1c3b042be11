package distribute

import (
	"slices"
	"strconv"

	"endoscope/planner/plan"
	"endoscope/planner/rules"
	"endoscope/planner/types"
)

// Division is a plan in two: what the server executes, and the fragment above it that
// its client may execute.
type Division struct {
	Base     plan.Node
	Columns  []int // of Base: those that the fragment reads
	Fragment *plan.Fragment
	// Tested says that the fragment begins with what the source of Base leaves of its
	// filter.
	Tested bool
}

// Divide divides a plan. left is what a source leaves of the filter of its
// acquisition: where the base is one acquisition, that is tested in the fragment. It
// gives nil if nothing could be executed elsewhere:
//
//   - joins, unions and what consistency needs are bound to the times at which
//     several acquisitions give rows, and an INSERT to the server's files;
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
		i, _ := strconv.Atoi(f.Name) // as it was made above
		d.Columns = append(d.Columns, i)
	}
	// Lower is what remembers no row.
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

// Site is where a node of the divided plan is: in Upper, in Lower, or in the base.
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

// movable are the nodes from the root down that a client may execute, and the one
// below them.
func movable(root plan.Node) (spine []plan.Node, base plan.Node) {
	for n := root; ; n = n.Inputs()[0] {
		switch x := n.(type) {
		case *plan.Filter, *plan.Project, *plan.Aggregate, *plan.Distinct, *plan.Sort, *plan.Limit:
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

// chain puts nodes, the topmost first, on a leaf.
func chain(spine []plan.Node, leaf plan.Node) plan.Node {
	for _, n := range slices.Backward(spine) {
		leaf = n.WithInputs([]plan.Node{leaf})
	}
	return leaf
}

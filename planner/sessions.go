package planner

import (
	"fmt"
	"slices"
	"strings"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
)

// A SESSION's windows end where rows are missing. So a condition on its rows is applied
// after them and does not restrict the acquisition, unless it is on the PARTITION BY (rule
// push-filter-through-window): every function of the program gets its probe although the
// query keeps only a few, which its author hardly expects.

// targetColumns are the columns that select processes.
var targetColumns = []string{"pid", "process", "exe", "container", "cgroup", "pod", "namespace"}

// sessionsOf visits each function stream under a SESSION that would be smaller if the
// conditions above were inside: with the conditions on columns, and the rewritten query.
func sessionsOf(root plan.Node, columns []string, visit func(leaf *plan.Acquire, conds, instead string)) {
	seen := map[plan.Node]bool{}
	var walk func(plan.Node)
	walk = func(n plan.Node) {
		if seen[n] {
			return
		}
		seen[n] = true
		if f, ok := n.(*plan.Filter); ok {
			if w, ok := f.Input.(*plan.Window); ok && w.Spec.Kind == plan.Session {
				conds := conditionsOn(f.Cond, columns)
				leaf := leafOf(w)
				if s := streamOf(leaf); len(conds) > 0 && s != nil && s.Functions {
					by := ""
					for i, e := range w.Spec.PartitionBy {
						by += []string{" PARTITION BY ", ", "}[min(i, 1)] + e.String()
					}
					all := strings.Join(conds, " AND ")
					visit(leaf, all, fmt.Sprintf("SESSION((SELECT * FROM %s WHERE %s), %s%s)", leaf.Stream, all, plan.FormatDuration(int64(w.Spec.Gap)), by))
				}
			}
		}
		for _, in := range n.Inputs() {
			walk(in)
		}
	}
	walk(root)
}

// leafOf returns the acquisition of a window's unchanged rows; nil if they were computed.
func leafOf(w *plan.Window) *plan.Acquire {
	n := w.Input
	for {
		switch in := n.(type) {
		case *plan.Acquire:
			return in
		case *plan.Filter:
			n = in.Input
		default:
			return nil
		}
	}
}

func streamOf(leaf *plan.Acquire) *catalog.Stream {
	if leaf == nil {
		return nil
	}
	return catalog.Find(leaf.Stream)
}

// conditionsOn returns the conjuncts of a condition that read only these columns.
func conditionsOn(e plan.Expr, columns []string) []string {
	var out []string
	for _, cond := range plan.Conjuncts(e) {
		some, only := false, true
		plan.Walk(cond, func(x plan.Expr) {
			if c, ok := x.(*plan.Col); ok {
				some, only = true, only && slices.Contains(columns, c.Name)
			}
		})
		if some && only {
			out = append(out, cond.String())
		}
	}
	return out
}

// noticeSessions adds a notice for sessions over more functions than the query keeps.
func (r *resolver) noticeSessions(root plan.Node) {
	sessionsOf(root, plan.SelectColumns, func(leaf *plan.Acquire, conds, instead string) {
		which := "every function of the executable is"
		if leaf.Select != nil {
			which = fmt.Sprintf("all functions with %s are", leaf.Select)
		}
		r.notice("SESSION is over the calls of all functions, and %s only filters its rows: %s instrumented. For sessions of those calls alone: %s", conds, which, instead)
	})
}

// targetOfSession returns the hint for a stream without a process whose conditions on
// processes are above a SESSION; "" if that is not the case.
func targetOfSession(root plan.Node, leaf *plan.Acquire) (hint string) {
	sessionsOf(root, targetColumns, func(of *plan.Acquire, conds, instead string) {
		if of == leaf {
			hint = fmt.Sprintf("over SESSION, %s only filters rows: %s", conds, instead)
		}
	})
	return hint
}

// choosesBy reports whether the session's target is chosen by a column of containers, which
// all its queries then read.
func (e *Env) choosesBy(column string) bool {
	return slices.ContainsFunc(e.Target.Containers, func(c plan.ContainerIs) bool { return c.Column == column })
}

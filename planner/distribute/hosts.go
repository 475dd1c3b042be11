package distribute

import (
	"slices"

	"endoscope/parser"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Statement is a resolved statement that several hosts execute. Its plan is not
// rewritten yet: the nodes are those that were resolved.
type Statement struct {
	Root plan.Node
	// Own is set if each host's result is separate, whatever its operators are.
	Own bool
	// Places are the positions of aggregates, limits and the like in the statement.
	Places map[plan.Node]Place
	// Borders are the projections that have the borders of windows among their
	// columns, with the index of the first border.
	Borders map[plan.Node]int
	// Order sorts the whole result; nil if no node does. The order of sub-queries does
	// not matter, unless a limit depends on it.
	Order plan.Node
	// Emit is the statement's EMIT clause, or nil.
	Emit *parser.Emit
	Src  string
	// Notices for the user.
	Notices []string
}

// Place is a part of a text, and the SELECT that contains it.
type Place struct {
	Pos parser.Span
	Src string
	Sel *parser.Select // nil: it is in a definition that the statement names
}

// Share is what one of several hosts executes, and what the root executes over the
// hosts' rows.
type Share struct {
	Lower plan.Node
	Upper *plan.Fragment
}

// OwnHint is the hint of an error about what would be separate for each host.
const OwnHint = "GROUP BY host gives each host's own"

// Hosts divides a statement at the lowest node that needs the rows of all hosts.
// The nodes below it have the rows of one host. Errors are *parser.Error.
func Hosts(s *Statement) (*Share, error) {
	d := &divider{Statement: s}
	cut, above, err := d.lowest()
	if err != nil {
		return nil, err
	}
	if cut == nil {
		return d.rows()
	}
	if err := d.checkAbove(cut, above); err != nil {
		return nil, err
	}
	if a, ok := cut.(*plan.Aggregate); ok {
		return d.states(a, above)
	}
	return d.arranged(cut, above)
}

type divider struct{ *Statement }

// lowest returns the lowest node that needs the rows of all hosts, and the nodes
// above it, the topmost first; nil if there is none.
func (d *divider) lowest() (cut plan.Node, above []plan.Node, err error) {
	n := d.Root
	if d.Own {
		for tail := true; tail; {
			switch x := n.(type) {
			case *plan.Limit, *plan.Sort:
				above, cut, n = append(above, n), n, n.Inputs()[0]
			case *plan.Project:
				if tail = isTail(x.Input); tail {
					above, n = append(above, n), x.Input
				}
			default:
				tail = false
			}
		}
		if cut == nil {
			return nil, nil, nil
		}
		return cut, above[:slices.Index(above, cut)], nil
	}
	for {
		if d.needs(n) {
			cut = n
		}
		ins := n.Inputs()
		if len(ins) > 1 {
			for _, in := range ins {
				if x := d.topmostNeed(in); x != nil {
					return nil, nil, d.alone(x)
				}
			}
		}
		if len(ins) != 1 || !d.anyNeeds(ins[0]) {
			break
		}
		above, n = append(above, n), ins[0]
	}
	if cut == nil {
		return nil, nil, nil
	}
	above = above[:depthOf(d.Root, cut)]
	if l, ok := cut.(*plan.Limit); ok {
		if s, ok := l.Input.(*plan.Sort); ok { // the limit applies to sorted rows
			return s, append(above, l), nil
		}
	}
	return cut, above, nil
}

// depthOf returns the number of nodes above n in a chain.
func depthOf(root, n plan.Node) (depth int) {
	for ; root != n; root = root.Inputs()[0] {
		depth++
	}
	return depth
}

func isTail(n plan.Node) bool {
	switch n.(type) {
	case *plan.Limit, *plan.Sort:
		return true
	}
	return false
}

// needs reports whether a node computes a different result from the rows of all
// hosts than from those of each host.
func (d *divider) needs(n plan.Node) bool {
	switch n := n.(type) {
	case *plan.Aggregate:
		return !slices.ContainsFunc(n.Keys, func(k plan.Expr) bool { return isHost(k, hostColumns(n.Input)) })
	case *plan.Distinct:
		return len(hostColumns(n.Input)) == 0
	case *plan.Limit:
		return true
	case *plan.Sort:
		return n == d.Order
	}
	return false
}

// anyNeeds reports whether any node of a plan needs the rows of all hosts.
func (d *divider) anyNeeds(n plan.Node) bool {
	return d.needs(n) || slices.ContainsFunc(n.Inputs(), d.anyNeeds)
}

// topmostNeed returns the topmost node in a part of a plan that needs the rows of all
// hosts.
func (d *divider) topmostNeed(n plan.Node) plan.Node {
	if d.needs(n) {
		return n
	}
	for _, in := range n.Inputs() {
		if x := d.topmostNeed(in); x != nil {
			return x
		}
	}
	return nil
}

// alone refuses what would be computed separately by each host.
func (d *divider) alone(n plan.Node) error {
	what := "groups"
	switch n.(type) {
	case *plan.Limit:
		what = "a LIMIT"
	case *plan.Distinct:
		what = "different rows"
	}
	return d.refuse(n, OwnHint, "%s inside a join or a UNION over several hosts would be each host's own", what)
}

// hostColumns returns the columns of a node that are the host's name.
func hostColumns(n plan.Node) map[int]bool {
	out := map[int]bool{}
	switch n := n.(type) {
	case *plan.Project:
		in := hostColumns(n.Input)
		for i, e := range n.Exprs {
			out[i] = isHost(e, in)
		}
	case *plan.Aggregate:
		in := hostColumns(n.Input)
		for i, k := range n.Keys {
			out[i] = isHost(k, in)
		}
	case *plan.Filter, *plan.Sort, *plan.Limit, *plan.Distinct, *plan.Window:
		return hostColumns(n.Inputs()[0])
	case *plan.Union:
		for i := range n.Out.Fields {
			out[i] = !slices.ContainsFunc(n.Ins, func(in plan.Node) bool { return !hostColumns(in)[i] })
		}
	}
	for i, is := range out {
		if !is {
			delete(out, i)
		}
	}
	return out
}

func isHost(e plan.Expr, of map[int]bool) bool {
	switch e := e.(type) {
	case *plan.Host:
		return e.Label == ""
	case *plan.Col:
		return of[e.Index]
	}
	return false
}

// rows returns a share whose result is the rows of all hosts: in order of their
// times, if they have times.
func (d *divider) rows() (*Share, error) {
	x := &plan.Exchange{Notices: d.Notices}
	out := d.Root.Schema()
	if !d.Own && !windowed(d.Root) {
		for i, f := range out.Fields {
			if f.Name == "timestamp" && f.Type == types.Timestamp && x.Kind == plan.Gather {
				x.Kind, x.Time = plan.MergeOrdered, i
			}
		}
	}
	return d.share(d.Root, x, leafOf(out)), nil
}

// leafOf returns a leaf that represents the rows that hosts send.
func leafOf(out types.Schema) *plan.Acquire {
	out.Time = -1
	return &plan.Acquire{Stream: plan.FragmentStream, Out: out}
}

// share returns a share whose upper part is a plan over one leaf.
func (d *divider) share(lower plan.Node, x *plan.Exchange, upper plan.Node) *Share {
	leaf := plan.Source(upper)
	if x.Pick == nil {
		for i := range leaf.Out.Fields {
			x.Pick = append(x.Pick, i)
		}
	}
	bare := *leaf
	bare.Partial = nil
	return &Share{Lower: lower, Upper: &plan.Fragment{Lower: &bare, Upper: upper, Exchange: x}}
}

// checkAbove refuses nodes that the root does not execute over the results of
// several hosts.
func (d *divider) checkAbove(cut plan.Node, above []plan.Node) error {
	for _, n := range slices.Backward(above) {
		switch n := n.(type) {
		case *plan.Filter, *plan.Project, *plan.Sort, *plan.Limit, *plan.Distinct:
		case *plan.Aggregate:
			if n.Windowed {
				return d.refuse(cut, OwnHint, "windows over results of several hosts are not supported")
			}
			if i := slices.IndexFunc(n.Aggs, byArrival); i >= 0 {
				at := d.find(n, func(e parser.Expr) bool { return callOf(e, n.Aggs[i].Fn) })
				return refusal(at.Pos, at.Src, "MIN or MAX of a column says which", "FIRST and LAST are not defined for groups of several hosts")
			}
		default:
			return d.alone(cut)
		}
		if emits(n) != plan.Final && d.Emit != nil {
			return refusal(d.Emit.Pos(), d.Src, "leave EMIT out", "groups of several hosts are computed once, at the end")
		}
		for _, e := range exprs(n) {
			if h := find(e); h != nil {
				return refusal(parser.Span{Start: h.Start, Stop: h.Stop}, d.Src, OwnHint, "rows computed from several hosts have no host")
			}
		}
	}
	return nil
}

func emits(n plan.Node) plan.EmitMode {
	switch n := n.(type) {
	case *plan.Aggregate:
		return n.Emit.Mode
	case *plan.Sort:
		return n.Emit.Mode
	}
	return plan.Final
}

// byArrival reports whether an aggregate depends on the order of rows.
func byArrival(a plan.Agg) bool { return a.Fn == "first" || a.Fn == "last" }

// exprs returns the expressions of a node.
func exprs(n plan.Node) []plan.Expr {
	switch n := n.(type) {
	case *plan.Filter:
		return []plan.Expr{n.Cond}
	case *plan.Project:
		return n.Exprs
	case *plan.Aggregate:
		all := slices.Clone(n.Keys)
		for _, a := range n.Aggs {
			all = append(append(all, a.Args...), a.Filter)
		}
		return all
	}
	return nil
}

// find returns the first reference to the host in an expression, or nil.
func find(e plan.Expr) (found *plan.Host) {
	plan.Walk(e, func(x plan.Expr) {
		if h, ok := x.(*plan.Host); ok && found == nil {
			found = h
		}
	})
	return found
}

// windowed reports whether there is a window in a plan.
func windowed(n plan.Node) bool {
	if _, ok := n.(*plan.Window); ok {
		return true
	}
	return slices.ContainsFunc(n.Inputs(), windowed)
}

// NeedsAll reports whether any node of a plan needs the rows of all hosts.
func NeedsAll(n plan.Node) bool { return (&divider{&Statement{}}).anyNeeds(n) }

package rules

import (
	"slices"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

var pruneColumns = Rule{
	Name:    "prune-columns",
	Why:     "an unused column is not acquired: no argument registers are copied, no file of /proc is read",
	Counter: "event time is kept, because windows, merges and watermarks use it; DISTINCT compares every column",
}

// applyPrune narrows every node to the columns that the nodes above read.
func applyPrune(root plan.Node, _ *Env) (plan.Node, bool) {
	all := map[int]bool{}
	for i := range root.Schema().Fields {
		all[i] = true
	}
	before := width(root)
	out, _ := prune(root, all)
	return out, width(out) < before
}

// Prune narrows every node of a plan, including its acquisitions, to what the nodes above
// read; the root is unchanged.
func Prune(root plan.Node) plan.Node { return exact(root) }

func width(n plan.Node) int {
	w := len(n.Schema().Fields)
	for _, in := range n.Inputs() {
		w += width(in)
	}
	return w
}

// prune returns n with only the needed columns, and the new index of each.
func prune(n plan.Node, need map[int]bool) (plan.Node, map[int]int) {
	switch n := n.(type) {
	case *plan.Acquire:
		if n.ByThread && !n.OnDemand {
			return pruneByThread(n, need)
		}
		used := clone(need)
		columnsOf(n.Filter, used)
		if n.Out.Time >= 0 {
			used[n.Out.Time] = true
		}
		out, to := keep(n.Out, used)
		c := *n
		c.Out, c.FilterOnly = out, nil
		if n.Filter != nil {
			c.Filter = renumber(n.Filter, to)
			for i, j := range to {
				if !need[i] && i != n.Out.Time {
					c.FilterOnly = append(c.FilterOnly, j)
				}
			}
			slices.Sort(c.FilterOnly)
		}
		return &c, to
	case *plan.Values:
		return n, same(n.Out)
	case *plan.Filter:
		used := clone(need)
		columnsOf(n.Cond, used)
		in, to := prune(n.Input, used)
		return &plan.Filter{Input: in, Cond: renumber(n.Cond, to)}, to
	case *plan.Project:
		return pruneProject(n, need)
	case *plan.Window:
		inner := len(n.Input.Schema().Fields)
		used := map[int]bool{n.Spec.Time: true}
		for i := range need {
			if i < inner {
				used[i] = true
			}
		}
		for _, e := range n.Spec.PartitionBy {
			columnsOf(e, used)
		}
		in, to := prune(n.Input, used)
		c := *n
		c.Input = in
		c.Spec.Time = to[n.Spec.Time]
		c.Spec.PartitionBy = renumberAll(n.Spec.PartitionBy, to)
		sch := in.Schema()
		c.Out = types.Schema{Time: sch.Time, Fields: append(slices.Clone(sch.Fields), n.Out.Fields[inner:]...)}
		to = cloneInts(to)
		to[inner], to[inner+1] = len(sch.Fields), len(sch.Fields)+1
		return &c, to
	case *plan.Aggregate:
		return pruneAggregate(n, need)
	case *plan.Sort:
		used := clone(need)
		for _, k := range n.Keys {
			columnsOf(k.X, used)
		}
		in, to := prune(n.Input, used)
		c := *n
		c.Input = in
		c.Keys = nil
		for _, k := range n.Keys {
			c.Keys = append(c.Keys, plan.SortKey{X: renumber(k.X, to), Desc: k.Desc})
		}
		return &c, to
	case *plan.Limit:
		in, to := prune(n.Input, need)
		c := *n
		c.Input = in
		return &c, to
	case *plan.Union:
		return pruneUnion(n, need)
	case *plan.Join:
		return pruneJoin(n, need)
	default: // Distinct, Consistent and Insert read every column
		ins := n.Inputs()
		next := make([]plan.Node, len(ins))
		for i, in := range ins {
			next[i] = exact(in)
		}
		return n.WithInputs(next), same(n.Schema())
	}
}

// exact prunes below n but keeps all of n's columns in place.
func exact(n plan.Node) plan.Node {
	all := map[int]bool{}
	for i := range n.Schema().Fields {
		all[i] = true
	}
	out, to := prune(n, all)
	for i, j := range to {
		if i != j {
			panic("rules: pruning moved a needed column")
		}
	}
	return out
}

// pruneByThread keeps the thread names, and drops them after the acquisition if no other
// node reads them.
func pruneByThread(n *plan.Acquire, need map[int]bool) (plan.Node, map[int]int) {
	c := *n
	c.ByThread = false
	name := n.Out.Index("thread_name")
	all := clone(need)
	all[name] = true
	in, to := prune(&c, all)
	c = *in.(*plan.Acquire)
	c.ByThread = true
	if need[name] {
		return &c, to
	}
	p := &plan.Project{Input: &c, Out: types.Schema{Time: -1}}
	mapped := map[int]int{}
	for i := range n.Out.Fields {
		j, ok := to[i]
		if !ok || !need[i] && i != n.Out.Time {
			continue
		}
		mapped[i] = len(p.Exprs)
		if j == c.Out.Time {
			p.Out.Time = len(p.Exprs)
		}
		f := c.Out.Fields[j]
		p.Exprs = append(p.Exprs, &plan.Col{Index: j, Name: f.Name, T: f.Type})
		p.Out.Fields = append(p.Out.Fields, f)
	}
	return p, mapped
}

func pruneProject(n *plan.Project, need map[int]bool) (plan.Node, map[int]int) {
	used := map[int]bool{}
	keepAt := clone(need)
	if n.Out.Time >= 0 {
		keepAt[n.Out.Time] = true
	}
	for i := range keepAt {
		columnsOf(n.Exprs[i], used)
	}
	in, to := prune(n.Input, used)
	out, moved := keep(n.Out, keepAt)
	c := &plan.Project{Input: in, Out: out, Exprs: make([]plan.Expr, len(out.Fields))}
	for i, j := range moved {
		c.Exprs[j] = renumber(n.Exprs[i], to)
	}
	return c, moved
}

func pruneAggregate(n *plan.Aggregate, need map[int]bool) (plan.Node, map[int]int) {
	used := map[int]bool{}
	for _, k := range n.Keys {
		columnsOf(k, used)
	}
	c := *n
	c.Aggs = nil
	fields := slices.Clone(n.Out.Fields[:len(n.Keys)])
	to := map[int]int{}
	for i := range n.Keys {
		to[i] = i
	}
	width := n.Width()
	needed := func(i int) bool { // of the aggregates and then of what is derived
		return n.States || slices.ContainsFunc(span(len(n.Keys)+width*i, width), func(c int) bool { return need[c] })
	}
	derives := map[int]bool{}
	for i, x := range n.Derived {
		if needed(len(n.Aggs) + i) {
			columnsOf(x, derives)
		}
	}
	kept := map[int]int{}
	for i, a := range n.Aggs {
		at := len(n.Keys) + width*i
		if !needed(i) && !derives[i] {
			continue
		}
		kept[i] = len(c.Aggs)
		for _, e := range a.Args {
			columnsOf(e, used)
		}
		if a.Filter != nil {
			columnsOf(a.Filter, used)
		}
		c.Aggs = append(c.Aggs, a)
		if n.States {
			continue
		}
		for _, c := range span(at, width) {
			to[c] = len(fields)
			fields = append(fields, n.Out.Fields[c])
		}
	}
	c.Derived = nil
	for i, x := range n.Derived {
		if !needed(len(n.Aggs) + i) {
			continue
		}
		c.Derived = append(c.Derived, renumber(x, kept))
		for _, c := range span(len(n.Keys)+width*(len(n.Aggs)+i), width) {
			to[c] = len(fields)
			fields = append(fields, n.Out.Fields[c])
		}
	}
	in, moved := prune(n.Input, used)
	c.Input = in
	c.Keys = renumberAll(n.Keys, moved)
	for i := range c.Aggs {
		c.Aggs[i].Args = renumberAll(c.Aggs[i].Args, moved)
		if c.Aggs[i].Filter != nil {
			c.Aggs[i].Filter = renumber(c.Aggs[i].Filter, moved)
		}
	}
	if n.States {
		return &c, same(n.Out)
	}
	c.Out = types.Schema{Fields: fields, Time: -1}
	return &c, to
}

// span returns n numbers from at on.
func span(at, n int) (list []int) {
	for i := range n {
		list = append(list, at+i)
	}
	return list
}

func pruneUnion(n *plan.Union, need map[int]bool) (plan.Node, map[int]int) {
	keepAt := clone(need)
	if n.Out.Time >= 0 {
		keepAt[n.Out.Time] = true
	}
	out, to := keep(n.Out, keepAt)
	c := &plan.Union{Out: out}
	for _, in := range n.Ins {
		p, moved := prune(in, keepAt)
		c.Ins = append(c.Ins, align(p, moved, to, out))
	}
	return c, to
}

// align reorders a union's input to the order of the union's columns.
func align(n plan.Node, at, to map[int]int, out types.Schema) plan.Node {
	sch := n.Schema()
	ok := len(sch.Fields) == len(out.Fields)
	p := &plan.Project{Input: n, Out: types.Schema{Fields: slices.Clone(out.Fields), Time: -1}, Exprs: make([]plan.Expr, len(out.Fields))}
	for i, j := range to {
		ok = ok && at[i] == j
		p.Exprs[j] = &plan.Col{Index: at[i], Name: sch.Fields[at[i]].Name, T: sch.Fields[at[i]].Type}
		if at[i] == sch.Time {
			p.Out.Time = j
		}
	}
	if ok {
		return n
	}
	return p
}

// keep returns the used part of a schema, and the new index of each column.
func keep(s types.Schema, used map[int]bool) (types.Schema, map[int]int) {
	out, to := types.Schema{Time: -1}, map[int]int{}
	for i, f := range s.Fields {
		if !used[i] {
			continue
		}
		to[i] = len(out.Fields)
		if i == s.Time {
			out.Time = len(out.Fields)
		}
		out.Fields = append(out.Fields, f)
	}
	return out, to
}

func same(s types.Schema) map[int]int {
	to := map[int]int{}
	for i := range s.Fields {
		to[i] = i
	}
	return to
}

func renumberAll(es []plan.Expr, to map[int]int) []plan.Expr {
	if es == nil {
		return nil
	}
	out := make([]plan.Expr, len(es))
	for i, e := range es {
		out[i] = renumber(e, to)
	}
	return out
}

func clone(m map[int]bool) map[int]bool {
	c := make(map[int]bool, len(m))
	for k, v := range m {
		if v {
			c[k] = true
		}
	}
	return c
}

func cloneInts(m map[int]int) map[int]int {
	c := make(map[int]int, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

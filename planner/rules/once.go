package rules

import (
	"reflect"
	"slices"
	"strings"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

var acquireOnce = Rule{
	Name: "acquire-once",
	Why: "an event that both sides of a join may use has a single time only if it is acquired once: probes of two acquisitions " +
		"read the clock one after the other, and a call would be FOLLOWED BY itself",
	Counter: "functions that have different names are different events; with conditions on names that a program may have mangled, " +
		"or with values and depths that depend on the selected functions, one acquisition would have a different result",
}

// applyOnce makes the sides of each join share one acquisition if they may need the same
// events; each side then selects its own rows and columns from it.
func applyOnce(root plan.Node, env *Env) (plan.Node, bool) {
	fired := false
	for {
		x, y, both := overlapping(root, env)
		if both == nil {
			return root, fired
		}
		fired = true
		root = plan.TransformNodes(root, func(n plan.Node) plan.Node {
			switch n {
			case x.leaf:
				return x.outOf(both)
			case y.leaf:
				return y.outOf(both)
			}
			return n
		})
	}
}

// overlapping finds two acquisitions under a join that may have the same events, and the
// one that covers both; nil: there are none.
func overlapping(root plan.Node, env *Env) (x, y *portion, both *plan.Acquire) {
	plan.TransformNodes(root, func(n plan.Node) plan.Node {
		j, ok := n.(*plan.Join)
		if !ok || both != nil || j.Kind == plan.ValueJoin {
			return n
		}
		for _, l := range eventsOf(j.Left) {
			for _, r := range eventsOf(j.Right) {
				if both == nil && l != r {
					x, y, both = together(l, r, env)
				}
			}
		}
		return n
	})
	return x, y, both
}

// eventsOf returns the acquisitions whose rows n returns, possibly with other columns.
func eventsOf(n plan.Node) (leaves []*plan.Acquire) {
	switch n := n.(type) {
	case *plan.Acquire:
		return []*plan.Acquire{n}
	case *plan.Filter, *plan.Project, *plan.Join, *plan.Union:
		for _, in := range n.Inputs() {
			leaves = append(leaves, eventsOf(in)...)
		}
	}
	return leaves
}

// portion is the part of a shared acquisition that one side needs.
type portion struct {
	leaf  *plan.Acquire
	names plan.Expr // its condition on function_name, over SelectColumns; nil: none, or the other's
}

// together returns one acquisition that covers both; nil if they have no events in common,
// are equal, or cannot be combined.
func together(a, b *plan.Acquire, env *Env) (x, y *portion, both *plan.Acquire) {
	s := catalog.Find(a.Stream)
	if s == nil || !s.Process || a.OnDemand || b.OnDemand || a.Every != 0 || b.Every != 0 || a.Partial != nil || b.Partial != nil {
		return nil, nil, nil
	}
	if a.Stream != b.Stream || a.ByThread != b.ByThread || a.Lines != b.Lines || a.Results != b.Results || !sameTarget(a.Target, b.Target) || sameEvents(a, b) {
		return nil, nil, nil
	}
	x, y = &portion{leaf: a}, &portion{leaf: b}
	c := *a
	if plainText(a.Select) != plainText(b.Select) {
		var ok bool
		if c.Select, ok = x.either(y, env); !ok {
			return nil, nil, nil
		}
	}
	if untyped(a.Out) || untyped(b.Out) { // the program is asked for types first, for each separately
		return nil, nil, nil
	}
	c.Filter, c.FilterOnly = nil, nil
	c.Out.Fields = slices.Clone(a.Out.Fields)
	for _, f := range b.Out.Fields {
		switch i := c.Out.Index(f.Name); {
		case i < 0:
			c.Out.Fields = append(c.Out.Fields, f)
		case c.Out.Fields[i].Type != f.Type:
			return nil, nil, nil
		}
	}
	if (x.names != nil || y.names != nil) && c.Out.Index("function_name") < 0 {
		c.Out.Fields = append(c.Out.Fields, types.Field{Name: "function_name", Qualifier: a.Stream, Type: types.Varchar})
	}
	if a.Filter != nil && b.Filter != nil {
		l, r := renumber(a.Filter, within(a.Out, c.Out)), renumber(b.Filter, within(b.Out, c.Out))
		if c.Filter = l; plainText(l) != plainText(r) {
			c.Filter = &plan.Call{Fn: "or", Args: []plan.Expr{l, r}, T: types.Boolean}
		}
	}
	return x, y, &c
}

// sameEvents reports whether two acquisitions are equal except for their positions in the
// statement: sub-plans that are shared.
func sameEvents(a, b *plan.Acquire) bool {
	x, ok := Fingerprint(a)
	y, ok2 := Fingerprint(b)
	return ok && ok2 && x == y
}

func sameTarget(a, b plan.Target) bool {
	a.Start, a.Stop, b.Start, b.Stop = 0, 0, 0, 0
	return reflect.DeepEqual(a, b)
}

func untyped(s types.Schema) bool {
	return slices.ContainsFunc(s.Fields, func(f types.Field) bool { return f.Type == types.Null })
}

func plainText(e plan.Expr) string {
	if e == nil {
		return ""
	}
	return e.String()
}

// within maps the columns of a schema to those of one that contains them all.
func within(s, all types.Schema) map[int]int {
	to := map[int]int{}
	for i, f := range s.Fields {
		to[i] = all.Index(f.Name)
	}
	return to
}

// outOf selects this side's rows and columns from the shared acquisition.
func (p *portion) outOf(both *plan.Acquire) plan.Node {
	to := within(p.leaf.Out, both.Out)
	var cond plan.Expr
	if p.names != nil {
		cond = renumber(p.names, map[int]int{0: both.Out.Index("function_name")})
	}
	if p.leaf.Filter != nil {
		cond = plan.And(cond, renumber(p.leaf.Filter, to))
	}
	var n plan.Node = both
	if cond != nil {
		n = &plan.Filter{Input: both, Cond: cond}
	}
	if p.leaf.Out.Time == both.Out.Time && slices.EqualFunc(p.leaf.Out.Fields, both.Out.Fields, func(a, b types.Field) bool { return a.Name == b.Name }) {
		return n
	}
	out := &plan.Project{Input: n, Out: types.Schema{Fields: slices.Clone(p.leaf.Out.Fields), Time: p.leaf.Out.Time}}
	for i, f := range p.leaf.Out.Fields {
		out.Exprs = append(out.Exprs, &plan.Col{Index: to[i], Name: f.Name, T: f.Type})
	}
	return out
}

// either returns the selection of functions that covers both. ok is false if they have none
// in common, or if the name in a row does not show which selection it matches.
func (p *portion) either(q *portion, env *Env) (sel plan.Expr, ok bool) {
	pn, pr := byName(p.leaf.Select)
	qn, qr := byName(q.leaf.Select)
	if plainText(pr) != plainText(qr) || !nameDecides(p.leaf, pn) || !nameDecides(q.leaf, qn) || disjoint(pn, qn, env) || disjoint(qn, pn, env) {
		return nil, false
	}
	p.names, q.names = pn, qn
	if pn == nil || qn == nil {
		return pr, true
	}
	return plan.And(&plan.Call{Fn: "or", Args: []plan.Expr{pn, qn}, T: types.Boolean}, pr), true
}

// byName splits a selection of functions into the condition on names alone and the rest;
// nil: none.
func byName(sel plan.Expr) (names, rest plan.Expr) {
	if sel == nil {
		return nil, nil
	}
	for _, c := range plan.Conjuncts(sel) {
		if used := reads(c); len(used) == 1 && used[0] {
			names = plan.And(names, c)
		} else {
			rest = plan.And(rest, c)
		}
	}
	return names, rest
}

// nameDecides reports whether the name in a row shows if a condition on names selected its
// function, and no other column depends on which functions are selected.
func nameDecides(a *plan.Acquire, names plan.Expr) bool {
	s := catalog.Find(a.Stream)
	if !s.Functions || a.Stream == "function_call" {
		return false
	}
	for _, f := range a.Out.Fields {
		switch {
		case f.Name == "depth" || f.Name == "self_time" || f.Name == "retval":
			return false
		case strings.HasPrefix(f.Name, "args.") || strings.HasPrefix(f.Name, "retval"):
			return false
		}
	}
	ok := true
	for _, text := range texts(names) {
		text = strings.TrimLeft(text, "^%(")
		ok = ok && !strings.HasPrefix(text, "_Z") && !strings.HasPrefix(text, "_R") && !strings.HasPrefix(text, "usdt:")
	}
	return ok
}

// texts returns the constant texts of an expression.
func texts(e plan.Expr) (list []string) {
	if e == nil {
		return nil
	}
	plan.Walk(e, func(e plan.Expr) {
		switch e := e.(type) {
		case *plan.Const:
			if e.V.Type == types.Varchar {
				list = append(list, e.V.S)
			}
		case *plan.In:
			for _, k := range e.List {
				if k.V.Type == types.Varchar {
					list = append(list, k.V.S)
				}
			}
		}
	})
	return list
}

// disjoint reports whether no name listed by one condition is allowed by another.
func disjoint(list, names plan.Expr, env *Env) bool {
	if list == nil || names == nil {
		return false
	}
	for _, c := range plan.Conjuncts(list) {
		if start, ok := prefixed(c); ok {
			if other, ok := prefixed(names); ok && !strings.HasPrefix(start, other) && !strings.HasPrefix(other, start) {
				return true
			}
		}
		all, ok := listed(c)
		if !ok {
			continue
		}
		return !slices.ContainsFunc(all, func(k *plan.Const) bool {
			v, err := env.Eval(plan.Substitute(names, []plan.Expr{k}))
			return err != nil || !v.IsNull && v.I != 0
		})
	}
	return false
}

// listed returns the only names that a condition allows, if it lists them.
func listed(c plan.Expr) (all []*plan.Const, ok bool) {
	switch c := c.(type) {
	case *plan.In:
		if _, is := c.X.(*plan.Col); !is {
			return nil, false
		}
		for i := range c.List {
			all = append(all, &c.List[i])
		}
		return all, true
	case *plan.Call:
		if c.Fn != "=" {
			return nil, false
		}
		for i, x := range c.Args {
			if k, is := c.Args[1-i].(*plan.Const); is {
				_, ok = x.(*plan.Col)
				return []*plan.Const{k}, ok
			}
		}
	}
	return nil, false
}

// prefixed returns the prefix of all texts that a LIKE allows.
func prefixed(c plan.Expr) (start string, ok bool) {
	like, ok := c.(*plan.Call)
	if !ok || like.Fn != "like" {
		return "", false
	}
	k, ok := like.Args[1].(*plan.Const)
	if !ok || k.V.IsNull {
		return "", false
	}
	return plan.LikePrefix(k.V.S), true
}

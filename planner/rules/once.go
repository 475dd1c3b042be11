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
	Why: "an event that both sides of a join may have has one time only if it is acquired once: probes of two acquisitions " +
		"read the clock one after the other, and a call would be FOLLOWED BY itself",
	Counter: "functions that have different names are different events; of conditions on names that a program may have mangled, " +
		"and of values and depths that depend on which functions are chosen, one acquisition would make something else",
}

// applyOnce has the sides of each join acquire together what may be the same events,
// and each take from it what it asked for.
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

// overlapping finds two acquisitions that meet in a join and may have the same events,
// and the one that has those of both; nil: there are no such.
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

// eventsOf are the acquisitions whose rows are what n gives, with other columns at most.
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

// portion is what one side asked for of what is acquired for both.
type portion struct {
	leaf  *plan.Acquire
	names plan.Expr // what its condition on function_name is, over SelectColumns; nil: none, or the other's
}

// together is one acquisition of what two ask for; nil if they have no events in common,
// are equal, or cannot be one.
func together(a, b *plan.Acquire, env *Env) (x, y *portion, both *plan.Acquire) {
	s := catalog.Find(a.Stream)
	if s == nil || !s.Process || a.OnDemand || b.OnDemand || a.Every != 0 || b.Every != 0 || a.Partial != nil || b.Partial != nil {
		return nil, nil, nil
	}
	if a.Stream != b.Stream || a.ByThread != b.ByThread || a.Results != b.Results || !sameTarget(a.Target, b.Target) || sameEvents(a, b) {
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
	if untyped(a.Out) || untyped(b.Out) { // asked of the program first, for each by itself
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

// sameEvents reports whether two acquisitions are equal, but for their places in the
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

// within is where the columns of a schema are in one that has them all.
func within(s, all types.Schema) map[int]int {
	to := map[int]int{}
	for i, f := range s.Fields {
		to[i] = all.Index(f.Name)
	}
	return to
}

// outOf gives from what was acquired for both sides what this one asked for.
func (p *portion) outOf(both *plan.Acquire) plan.Node {
	to := within(p.leaf.Out, both.Out)
	var cond plan.Expr
	if p.names != nil {
		cond = renumber(p.names, map[int]int{0: both.Out.Index("function_name")})
	}
	if p.leaf.Filter != nil {
		cond = conjoin(cond, renumber(p.leaf.Filter, to))
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

// either is the choice of functions that has those of both. It is not ok if they have
// none in common, or a choice that the name of a row does not tell.
func (p *portion) either(q *portion, env *Env) (sel plan.Expr, ok bool) {
	pn, pr := byName(p.leaf.Select)
	qn, qr := byName(q.leaf.Select)
	if plainText(pr) != plainText(qr) || !told(p.leaf, pn) || !told(q.leaf, qn) || apart(pn, qn, env) || apart(qn, pn, env) {
		return nil, false
	}
	p.names, q.names = pn, qn
	if pn == nil || qn == nil {
		return pr, true
	}
	return conjoin(&plan.Call{Fn: "or", Args: []plan.Expr{pn, qn}, T: types.Boolean}, pr), true
}

// byName parts a choice of functions into what it says of their names alone and the
// rest; nil: nothing.
func byName(sel plan.Expr) (names, rest plan.Expr) {
	if sel == nil {
		return nil, nil
	}
	for _, c := range conjuncts(sel) {
		if used := reads(c); len(used) == 1 && used[0] {
			names = conjoin(names, c)
		} else {
			rest = conjoin(rest, c)
		}
	}
	return names, rest
}

// told reports whether a row says by its name whether a condition on names chose its
// function, and has otherwise nothing that depends on which others are chosen.
func told(a *plan.Acquire, names plan.Expr) bool {
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

// texts are the constant texts of an expression.
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

// apart reports whether the names that a condition lists are none that another allows.
func apart(list, names plan.Expr, env *Env) bool {
	if list == nil || names == nil {
		return false
	}
	for _, c := range conjuncts(list) {
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
			v, err := env.Eval(substitute(names, []plan.Expr{k}))
			return err != nil || !v.IsNull && v.I != 0
		})
	}
	return false
}

// listed are the only names that a condition allows, if it lists them.
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

// prefixed is what texts begin with that a LIKE allows.
func prefixed(c plan.Expr) (start string, ok bool) {
	like, ok := c.(*plan.Call)
	if !ok || like.Fn != "like" {
		return "", false
	}
	k, ok := like.Args[1].(*plan.Const)
	if !ok || k.V.IsNull {
		return "", false
	}
	if i := strings.IndexAny(k.V.S, `%_\`); i >= 0 {
		return k.V.S[:i], true
	}
	return k.V.S, true
}

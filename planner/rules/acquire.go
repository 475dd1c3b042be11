package rules

import (
	"slices"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

var acquireRules = []Rule{
	{
		Name:    "target-from-filter",
		Why:     "pid = 42, process = 'name' and exe = '/path' select what is instrumented: other processes have no cost",
		Counter: "a condition on a container also remains a filter, because the kernel's programs know no containers; pid <> 42 selects no target; a second such condition remains a filter, because a target matches any of its entries, and so does a condition on a stream that also reports a target's descendants; in a stream without processes, or a file, pid is an ordinary column",
		Apply: overAcquire(func(a *plan.Acquire, conj []plan.Expr) (*plan.Acquire, []plan.Expr) {
			s := catalog.Find(a.Stream)
			if s == nil || !s.Process || !a.Target.IsZero() {
				return nil, nil
			}
			for i, c := range conj {
				if t, ok := targetOf(a, c); ok {
					n := *a
					n.Target = t
					if s.Everywhere || len(t.Containers) > 0 {
						return &n, conj
					}
					return &n, slices.Delete(slices.Clone(conj), i, i+1)
				}
			}
			return nil, nil
		}),
	},
	{
		Name:    "functions-from-filter",
		Why:     "conditions on function_name, class and module decide which functions are instrumented: the others are never touched",
		Counter: "function_name = 'f' OR duration > 1s needs every function; a filter above would not match mangled names, so the condition is moved, not copied",
		Apply: overAcquire(func(a *plan.Acquire, conj []plan.Expr) (*plan.Acquire, []plan.Expr) {
			if s := catalog.Find(a.Stream); s == nil || !s.Functions {
				return nil, nil
			}
			to := map[int]int{}
			for i, f := range a.Out.Fields {
				if j := slices.Index(plan.SelectColumns, f.Name); j >= 0 {
					to[i] = j
				}
			}
			var moved, rest []plan.Expr
			for _, c := range conj {
				used := reads(c)
				all := len(used) > 0 && !plan.Volatile(c)
				for i := range used {
					_, ok := to[i]
					all = all && ok
				}
				if all {
					moved = append(moved, renumber(c, to))
				} else {
					rest = append(rest, c)
				}
			}
			if len(moved) == 0 {
				return nil, nil
			}
			n := *a
			n.Select = plan.And(append([]plan.Expr{a.Select}, moved...)...)
			return &n, rest
		}),
	},
	{
		Name:    "filter-into-acquisition",
		Why:     "the source may test the condition where the event happens and send nothing",
		Counter: "now() is the time at which the engine sees the row",
		Apply: overAcquire(func(a *plan.Acquire, conj []plan.Expr) (*plan.Acquire, []plan.Expr) {
			var moved, rest []plan.Expr
			for _, c := range conj {
				if plan.Volatile(c) {
					rest = append(rest, c)
				} else {
					moved = append(moved, c)
				}
			}
			if len(moved) == 0 {
				return nil, nil
			}
			n := *a
			n.Filter = plan.And(append([]plan.Expr{a.Filter}, moved...)...)
			return &n, rest
		}),
	},
}

// overAcquire returns the Apply of a rule that moves conjuncts of a filter into the
// acquisition below it. f returns the new acquisition and the remaining conjuncts, or nil
// if nothing moves.
func overAcquire(f func(*plan.Acquire, []plan.Expr) (*plan.Acquire, []plan.Expr)) func(plan.Node, *Env) (plan.Node, bool) {
	return onFiltered(func(flt *plan.Filter, a *plan.Acquire) (plan.Node, bool) {
		next, rest := f(a, plan.Conjuncts(flt.Cond))
		if next == nil || len(rest) == 0 {
			return next, next != nil
		}
		return &plan.Filter{Input: next, Cond: plan.And(rest...)}, true
	})
}

// containerColumns are the columns of containers that choose processes.
var containerColumns = []string{"container", "cgroup", "pod", "namespace"}

// ofContainer interprets label('app') = 'x', which is label(labels, 'app') = 'x' here.
func ofContainer(a *plan.Acquire, e plan.Expr) (c plan.ContainerIs, value plan.Const, ok bool) {
	is, _ := e.(*plan.Call)
	if is == nil || is.Fn != "=" {
		return c, value, false
	}
	for i, x := range is.Args {
		call, _ := x.(*plan.Call)
		k, _ := is.Args[1-i].(*plan.Const)
		if call == nil || call.Fn != "label" || k == nil || !isText(k) {
			continue
		}
		labels, _ := call.Args[0].(*plan.Col)
		name, _ := call.Args[1].(*plan.Const)
		if labels != nil && name != nil && a.Out.Fields[labels.Index].Name == "labels" && isText(name) {
			return plan.ContainerIs{Column: plan.LabelPrefix + name.V.S, Value: k.V.S}, *k, true
		}
	}
	return c, value, false
}

// targetOf interprets a conjunct as a selection of processes: an equality, an IN list, or
// an OR of those.
func targetOf(a *plan.Acquire, e plan.Expr) (plan.Target, bool) {
	var t plan.Target
	note := func(k plan.Const) {
		if k.Stop > k.Start && (t.Stop == 0 || k.Start < t.Start) {
			t.Start, t.Stop = k.Start, k.Stop
		}
	}
	add := func(x plan.Expr, ks ...plan.Const) bool {
		c, ok := x.(*plan.Col)
		if !ok {
			return false
		}
		for _, k := range ks {
			if k.V.IsNull {
				return false
			}
			note(k)
			switch name := a.Out.Fields[c.Index].Name; {
			case name == "pid" && k.V.Type == types.Bigint:
				t.PIDs = append(t.PIDs, int(k.V.I))
			case name == "process" && k.V.Type == types.Varchar:
				t.Processes = append(t.Processes, k.V.S)
			case name == "exe" && k.V.Type == types.Varchar:
				t.Exes = append(t.Exes, k.V.S)
			case slices.Contains(containerColumns, name) && k.V.Type == types.Varchar:
				t.Containers = append(t.Containers, plan.ContainerIs{Column: name, Value: k.V.S})
			default:
				return false
			}
		}
		return true
	}
	var read func(plan.Expr) bool
	read = func(e plan.Expr) bool {
		if c, k, ok := ofContainer(a, e); ok {
			t.Containers = append(t.Containers, c)
			note(k)
			return true
		}
		switch e := e.(type) {
		case *plan.In:
			return add(e.X, e.List...)
		case *plan.Call:
			switch e.Fn {
			case "or":
				return read(e.Args[0]) && read(e.Args[1])
			case "=":
				for i, x := range e.Args {
					if k, ok := x.(*plan.Const); ok {
						return add(e.Args[1-i], *k)
					}
				}
			}
		}
		return false
	}
	if !read(e) {
		return plan.Target{}, false
	}
	return t, true
}

var sessionTarget = Rule{
	Name:    "session-target",
	Why:     "USE, -p, --exe or a command set the target of queries without one",
	Counter: "a target in the query itself takes precedence",
}

func applySessionTarget(root plan.Node, env *Env) (plan.Node, bool) {
	fired := false
	root = plan.TransformNodes(root, func(n plan.Node) plan.Node {
		a, ok := n.(*plan.Acquire)
		if !ok || !a.Target.IsZero() || env.Session.IsZero() {
			return n
		}
		if s := catalog.Find(a.Stream); s == nil || !s.Process {
			return n
		}
		c := *a
		c.Target = env.Session
		if chosen := env.Session.Containers; len(chosen) > 0 && a.Stream != catalog.EventHandlers {
			at := a.Out.Index(chosen[0].Column)
			if at < 0 {
				return n // the stream has no containers
			}
			is, text := &plan.Col{Index: at, Name: chosen[0].Column, T: types.Varchar}, &plan.Const{V: types.Str(chosen[0].Value)}
			c.Filter = plan.And(a.Filter, &plan.Call{Fn: "=", Args: []plan.Expr{is, text}, T: types.Boolean})
		}
		fired = true
		return &c
	})
	return root, fired
}

package rules

import (
	"slices"
	"strings"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

var targetFromPattern = Rule{
	Name:    "target-from-pattern",
	Why:     "exe LIKE '/opt/app/%' and process LIKE 'worker%' choose programs, of which only those that satisfy the condition are instrumented",
	Counter: "where the session has a target, a pattern chooses among its processes; process LIKE also remains a filter, because a program may give its processes several names",
}

// applyPattern makes programs that satisfy a condition on exe, process or module the target
// of acquisitions without one.
func applyPattern(root plan.Node, _ *Env) (plan.Node, bool) {
	return withoutTarget(root, func(a *plan.Acquire) bool {
		for _, column := range []string{"exe", "process"} {
			all := plan.Conjuncts(a.Filter)
			for i, c := range all {
				text := choices(c, a.Out.Index(column))
				if text == nil {
					continue
				}
				a.Target = plan.Target{Matching: renumber(c, map[int]int{a.Out.Index(column): 0}), By: column, Start: text.Start, Stop: text.Stop}
				if column == "exe" {
					a.Filter = plan.And(slices.Delete(slices.Clone(all), i, i+1)...)
				}
				return true
			}
		}
		return false
	})
}

var targetFromModule = Rule{
	Name:    "target-from-module",
	Why:     "module = '/usr/lib/libz.so.1' without a process means the calls of all processes, those that start later included: probes belong to files",
	Counter: "where a process or a session's target is given, module selects among its modules; a pattern that does not begin with a folder could mean any file of the machine",
}

// libraryStreams are the streams whose calls are observed in all processes.
var libraryStreams = []string{catalog.FunctionStart, catalog.FunctionEnd, catalog.FunctionDuration}

func applyModule(root plan.Node, _ *Env) (plan.Node, bool) {
	return withoutTarget(root, func(a *plan.Acquire) bool {
		if !slices.Contains(libraryStreams, a.Stream) {
			return false
		}
		all := plan.Conjuncts(a.Select)
		for i, c := range all {
			text := choices(c, plan.SelectModule)
			if text == nil {
				continue
			}
			t := plan.Target{By: "module", Start: text.Start, Stop: text.Stop}
			if files, ok := namedBy(c); ok {
				t.Files = files
			} else if t.Matching = renumber(c, map[int]int{plan.SelectModule: 0}); !inFolders(c) {
				continue
			}
			a.Target = t
			a.Select = plan.And(slices.Delete(slices.Clone(all), i, i+1)...)
			return true
		}
		return false
	})
}

// withoutTarget applies f to copies of the acquisitions that need a target and have none.
func withoutTarget(root plan.Node, f func(*plan.Acquire) bool) (plan.Node, bool) {
	fired := false
	root = plan.TransformNodes(root, func(n plan.Node) plan.Node {
		a, ok := n.(*plan.Acquire)
		if !ok || !a.Target.IsZero() {
			return n
		}
		if s := catalog.Find(a.Stream); s == nil || !s.Process || s.Everywhere {
			return n
		}
		c := *a
		if !f(&c) {
			return n
		}
		fired = true
		return &c
	})
	return root, fired
}

// choices returns the first text that a condition compares a column with, if it only says
// which texts or patterns the column may equal; else nil.
func choices(e plan.Expr, column int) *plan.Const {
	is := func(x plan.Expr) bool {
		c, ok := x.(*plan.Col)
		return ok && c.Index == column
	}
	switch e := e.(type) {
	case *plan.In:
		if is(e.X) && len(e.List) > 0 && !slices.ContainsFunc(e.List, func(c plan.Const) bool { return !isText(&c) }) {
			return &e.List[0]
		}
	case *plan.Call:
		if len(e.Args) != 2 {
			return nil
		}
		switch e.Fn {
		case "or":
			l, r := choices(e.Args[0], column), choices(e.Args[1], column)
			if l == nil || r == nil {
				return nil
			}
			return l
		case "=", "like", "ilike", "~", "starts_with":
			for i, x := range e.Args {
				if c, ok := e.Args[1-i].(*plan.Const); ok && is(x) && isText(c) {
					return c
				}
			}
		}
	}
	return nil
}

// inFolders reports whether each alternative of a condition accepted by choices begins with a
// folder, so that all files which satisfy it can be found.
func inFolders(e plan.Expr) bool {
	if c, ok := e.(*plan.Call); ok && c.Fn == "or" {
		return inFolders(c.Args[0]) && inFolders(c.Args[1])
	} else if ok && (c.Fn == "like" || c.Fn == "starts_with") {
		text, ok := c.Args[1].(*plan.Const)
		if !ok {
			return false
		}
		start := text.V.S
		if c.Fn == "like" {
			start = plan.LikePrefix(start)
		}
		return strings.HasPrefix(start, "/") && strings.LastIndexByte(start, '/') > 0
	}
	names, ok := namedBy(e)
	return ok && !slices.ContainsFunc(names, func(s string) bool { return !strings.HasPrefix(s, "/") })
}

// namedBy returns the texts of a condition accepted by choices, if it has no pattern.
func namedBy(e plan.Expr) (out []string, ok bool) {
	if or, is := e.(*plan.Call); is && or.Fn == "or" {
		l, ok := namedBy(or.Args[0])
		r, also := namedBy(or.Args[1])
		return append(l, r...), ok && also
	}
	all, ok := listed(e)
	for _, c := range all {
		out = append(out, c.V.S)
	}
	return out, ok
}

func isText(c *plan.Const) bool { return c.V.Type == types.Varchar && !c.V.IsNull }

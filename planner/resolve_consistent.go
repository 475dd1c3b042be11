package planner

import (
	"slices"
	"strings"

	"endoscope/parser"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// consistent resolves CONSISTENT(source). The source's conditions mark rows instead of
// dropping them, because the keeper needs the unselected rows too.
func (r *resolver) consistent(s *parser.Source, with ctes, lv level) (*scope, error) {
	in, err := r.source(s.Src, with, lv, 0)
	if err != nil {
		return nil, err
	}
	marked, ok := marked(in.node)
	if !ok {
		return nil, r.hintf(s.Src.Pos(), "CONSISTENT((SELECT * FROM events WHERE ...)), and aggregate what it gives",
			"CONSISTENT takes events and conditions on them, and nothing that changes, orders or limits them")
	}
	sch := in.node.Schema()
	if sch.Time < 0 {
		return nil, r.errorf(s.Src.Pos(), "CONSISTENT needs events with a timestamp")
	}
	n := &plan.Consistent{Input: marked}
	for _, role := range []struct {
		name string
		at   *int
	}{
		{"event", &n.Roles.Event}, {"entity_id", &n.Roles.Entity}, {"category", &n.Roles.Category}, {"parent_id", &n.Roles.Parent},
		{"other_id", &n.Roles.Other}, {"thread_id", &n.Roles.ThreadID}, {"thread_name", &n.Roles.ThreadName}, {"name", &n.Roles.Name}, {"type_name", &n.Roles.TypeName}, {"began", &n.Roles.Began},
	} {
		*role.at = slices.IndexFunc(sch.Fields, func(f types.Field) bool { return strings.EqualFold(f.Name, role.name) })
		if *role.at < 0 {
			continue
		}
		if role.at == &n.Roles.Began {
			if sch.Fields[*role.at].Type != types.Timestamp { // a column with another meaning
				*role.at = -1
			}
			continue
		}
		id := strings.HasSuffix(role.name, "_id")
		if t := sch.Fields[*role.at].Type; t != types.Varchar && (t != types.Bigint || !id) {
			return nil, r.errorf(s.Src.Pos(), "CONSISTENT needs text in the column %s, which is %s", role.name, t)
		}
	}
	if n.Roles.Event < 0 || n.Roles.Entity < 0 {
		return nil, r.hintf(s.Src.Pos(), "it also uses the columns category, parent_id, other_id, thread_id, thread_name, name, type_name",
			"CONSISTENT needs the columns event and entity_id")
	}
	t := sch.Fields[sch.Time]
	n.Out = types.Schema{Time: sch.Time, Fields: append(slices.Clone(sch.Fields),
		types.Field{Name: "catch_up", Qualifier: t.Qualifier, Type: types.Boolean},
		types.Field{Name: "original_time", Qualifier: t.Qualifier, Type: t.Type})}
	out := *in
	out.node = n
	if in.visible == len(sch.Fields) {
		out.visible = len(n.Out.Fields)
	}
	return &out, nil
}

// marked returns n's rows before its conditions, with an additional last column: whether
// they hold. It returns false if n contains more than conditions.
func marked(n plan.Node) (plan.Node, bool) {
	switch n := n.(type) {
	case *plan.Acquire:
		return mark(n, n.Out, columnsAs(n.Out), &plan.Const{V: types.Bool(true)}), true
	case *plan.Filter:
		input := n.Input
		if a, ok := input.(*plan.Acquire); ok {
			if needless := neverNeeded(a, n.Cond); needless != nil {
				own := a.Schema()
				return mark(&plan.Filter{Input: a, Cond: needless}, own, columnsAs(own), n.Cond), true
			}
		}
		in, ok := marked(input)
		if !ok {
			return nil, false
		}
		own := n.Schema()
		return mark(in, own, columnsAs(own), &plan.Call{Fn: "and", Args: []plan.Expr{selection(own), n.Cond}, T: types.Boolean}), true
	case *plan.Project:
		in, ok := marked(n.Input)
		if !ok {
			return nil, false
		}
		return mark(in, n.Out, n.Exprs, selection(n.Input.Schema())), true
	case *plan.Union:
		c := &plan.Union{Out: withSelection(n.Out)}
		for _, in := range n.Ins {
			m, ok := marked(in)
			if !ok {
				return nil, false
			}
			c.Ins = append(c.Ins, m)
		}
		return c, true
	}
	return nil, false
}

// mark projects exprs, whose schema is out, and whether a row is selected.
func mark(in plan.Node, out types.Schema, exprs []plan.Expr, selected plan.Expr) plan.Node {
	return &plan.Project{Input: in, Out: withSelection(out), Exprs: append(slices.Clone(exprs), selected)}
}

func withSelection(s types.Schema) types.Schema {
	return types.Schema{Time: s.Time, Fields: append(slices.Clone(s.Fields), types.Field{Name: "selected", Type: types.Boolean})}
}

// selection returns the column that mark has added to rows of s.
func selection(s types.Schema) *plan.Col {
	return &plan.Col{Index: len(s.Fields), Name: "selected", T: types.Boolean}
}

func columnsAs(s types.Schema) []plan.Expr {
	var out []plan.Expr
	for i, f := range s.Fields {
		out = append(out, &plan.Col{Index: i, Name: f.Name, T: f.Type})
	}
	return out
}

// categories are the categories of entities in order of reference: events of each refer to
// that category and the ones before it, INVOCATION to all.
var categories = []string{"THREAD", "TYPE", "OBJECT", "INVOCATION"}

// neverNeeded returns the part of a condition on a built-in stream whose failing rows no
// selected event can need, so that the source may drop them. nil: there is none.
//
// Processes do not refer to each other. Of the categories, those are needed to which the
// selected ones refer.
func neverNeeded(a *plan.Acquire, cond plan.Expr) plan.Expr {
	st := catalog.Find(a.Stream)
	if st == nil || !st.Process {
		return nil
	}
	var out plan.Expr
	add := func(e plan.Expr) { out = plan.And(out, e) }
	for _, c := range plan.Conjuncts(cond) {
		col, values := oneOf(c)
		if col == nil {
			continue
		}
		switch a.Out.Fields[col.Index].Name {
		case "pid", "process", "exe":
			add(c)
		case "category":
			last := -1
			for _, v := range values {
				last = max(last, slices.Index(categories, v.V.S))
			}
			in := &plan.In{X: col}
			for _, name := range categories[:last+1] {
				in.List = append(in.List, plan.Const{V: types.Str(name)})
			}
			if len(in.List) > 0 {
				add(in)
			}
		}
	}
	return out
}

// oneOf decomposes a condition that requires a column to have one of some values.
func oneOf(e plan.Expr) (*plan.Col, []plan.Const) {
	switch e := e.(type) {
	case *plan.In:
		if col, ok := e.X.(*plan.Col); ok {
			return col, e.List
		}
	case *plan.Call:
		if e.Fn != "=" || len(e.Args) != 2 {
			return nil, nil
		}
		for i, x := range e.Args {
			col, isCol := x.(*plan.Col)
			if k, ok := e.Args[1-i].(*plan.Const); ok && isCol {
				return col, []plan.Const{*k}
			}
		}
	}
	return nil, nil
}

package planner

import (
	"slices"
	"strings"

	"endoscope/parser"
	"endoscope/planner/catalog"
	"endoscope/planner/definitions"
	"endoscope/planner/plan"
	"endoscope/planner/rules"
	"endoscope/planner/types"
)

// Contexts are columns that a statement must name, as values are: what the thread, goroutine
// or coroutine of a tuple is inside of. Their type is that of the key, which may be known from
// the program only.

// contextual are the streams whose tuples can tell a context: each is of one thread or goroutine
// at one instant.
var contextual = []string{catalog.FunctionStart, catalog.FunctionEnd, catalog.FunctionDuration, catalog.FunctionCall, catalog.Allocation, catalog.Deallocation, catalog.StackSample}

// CheckContext refuses a CREATE CONTEXT that is not valid.
func CheckContext(c *parser.CreateContext, src string, env *Env) error {
	r := &resolver{env: env, src: src}
	if err := r.newName("a context", c.Name); err != nil {
		return err
	}
	name := c.Name.Name
	if name != strings.ToLower(name) {
		return r.hintf(c.Name.Pos(), strings.ToLower(name), "the name of a context is a column, in lower case")
	}
	if isValue(name) || slices.ContainsFunc(contextual, func(s string) bool { _, ok := catalog.Must(s).Column(name); return ok }) {
		return r.hintf(c.Name.Pos(), "choose another name", "%s is a column of the streams that tell a context: it would be hidden", name)
	}
	_, err := planContext(c, src, env)
	return err
}

// planContext plans a context: the acquisitions of the functions that begin and end it.
func planContext(c *parser.CreateContext, src string, env *Env) (*plan.Context, error) {
	own := *env
	own.Target, own.ByThread, own.Contexts, own.Overhead = plan.Target{}, false, nil, 0
	r := &resolver{env: &own, src: src}
	out := &plan.Context{Name: c.Name.Name}
	var err error
	if out.Begin, err = r.edge(c.Begin, c.Key); err != nil {
		return nil, err
	}
	if c.End == nil && out.Begin.Stream == catalog.FunctionEnd {
		return nil, r.hintf(c.Begin.Stream.Pos(), "END function_start WHERE function_name = 'next'", "a context that begins at the end of a call needs END")
	}
	if c.End == nil {
		return out, nil
	}
	if out.End, err = r.edge(c.End, nil); err != nil {
		return nil, err
	}
	if selectsModules(out.Begin.Select) != selectsModules(out.End.Select) {
		return nil, r.hintf(c.End.Where.Pos(), "name it in both", "the module is named where the context ends or where it begins, but not in both")
	}
	if out.Begin.Stream == catalog.FunctionStart && out.End.Stream == catalog.FunctionEnd && out.Begin.Select.String() == out.End.Select.String() {
		out.End = nil // the default
	}
	return out, nil
}

// edge plans where a context begins, with the key as its only column, or where it ends.
func (r *resolver) edge(e *parser.Edge, key parser.Expr) (*plan.Acquire, error) {
	if s := e.Stream.Name; s != catalog.FunctionStart && s != catalog.FunctionEnd {
		return nil, r.hintf(e.Stream.Pos(), "function_start or function_end", "a context begins and ends at the start or the end of a function, not at %s", s)
	}
	x := key
	if key == nil {
		x = &parser.ColumnRef{Span: e.Stream.Span, Parts: []*parser.Ident{{Span: e.Stream.Span, Name: "function_name"}}}
	}
	root, err := r.query(&parser.Query{Span: e.Span, Selects: []*parser.Select{{
		Span: e.Span, Items: []*parser.SelectItem{{Span: x.Pos(), X: x}}, Where: e.Where,
		From: &parser.From{Span: e.Span, First: &parser.Source{Span: e.Stream.Span, Kind: parser.SourceStream, Name: e.Stream}},
	}}}, nil, nested)
	if err != nil {
		return nil, err
	}
	// Without a target a condition on a module would choose the programs that load it.
	n, _, err := rules.Rewrite(root.node, &rules.Env{Eval: r.env.Eval, NoKernel: true, Session: anyTarget})
	if err != nil {
		return nil, r.placed(err)
	}
	const where = "function_name = 'handle', function_name IN (a, b) AND module = 'libx.so'"
	col := 0
	if p, ok := n.(*plan.Project); ok {
		col = -1
		if c, ok := p.Exprs[0].(*plan.Col); ok {
			col = c.Index
		}
		n = p.Input
	}
	const keys, oneValue = "args.id, str(args.name), arg0, retval", "the key of a context is one value of the call, as it is in the program"
	leaf, ok := n.(*plan.Acquire)
	if _, filtered := n.(*plan.Filter); !ok && !filtered {
		return nil, r.hintf(x.Pos(), keys, oneValue)
	}
	if !ok || leaf.Filter != nil || !slices.Equal(leaf.Target.PIDs, anyTarget.PIDs) || leaf.Select == nil {
		return nil, r.hintf(e.Where.Pos(), where, "the functions of a context are chosen by function_name, class and module alone; a query chooses the processes")
	}
	a := *leaf
	a.Target = plan.Target{}
	if key == nil {
		a.Out = types.Schema{Time: -1}
		return &a, nil
	}
	if col < 0 || !isKey(leaf.Out.Fields[col].Name) {
		return nil, r.hintf(key.Pos(), keys, oneValue)
	}
	field := leaf.Out.Fields[col]
	if t := field.Type; t != types.Null && !keyType(t) {
		return nil, r.errorf(key.Pos(), "the key of a context is a whole number or a text, and this is %s", t)
	}
	a.Out = types.Schema{Fields: []types.Field{field}, Time: -1}
	return &a, nil
}

// anyTarget stands for the target of the query that tells the context.
var anyTarget = plan.Target{PIDs: []int{-1}}

func isKey(column string) bool {
	_, raw := plan.RawArgument(column)
	return column != plan.AllArguments && (raw || column == resultColumn || isValue(column))
}

func keyType(t types.Type) bool {
	return t == types.Bigint || t == types.Ubigint || t == types.Varchar
}

// selectsModules reports whether a selection of functions names modules.
func selectsModules(e plan.Expr) (does bool) {
	plan.Walk(e, func(x plan.Expr) {
		if c, ok := x.(*plan.Col); ok && c.Index == plan.SelectModule {
			does = true
		}
	})
	return does
}

// contextsOf returns the columns of contexts that the statement names and a stream can tell.
func (r *resolver) contextsOf(st *catalog.Stream) (out []types.Field, err error) {
	if !slices.Contains(contextual, st.Name) {
		return nil, nil
	}
	owner := r.scope().Owner
	for _, qualified := range r.env.Contexts.Names() {
		of, name := definitions.Split(qualified)
		if of != owner || !hasWord(r.src, name) {
			continue
		}
		c := r.env.Contexts.Get(qualified)
		if c == nil {
			continue // dropped meanwhile
		}
		p, err := planContext(c, c.String(), r.env)
		if err != nil {
			return nil, err
		}
		key := valueKey{r.serial, name}
		if r.contexts == nil {
			r.contexts = map[valueKey]*plan.Context{}
		}
		r.contexts[key] = p
		f := &p.Begin.Out.Fields[0]
		if t, ok := r.knownType(name); ok {
			f.Type = t
		}
		out = append(out, types.Field{Name: name, Qualifier: st.Name, Type: f.Type})
	}
	return out, nil
}

// findKeyType looks up the type of the key of the context that an acquisition tells, if it is
// not known; it reports whether it was found.
func (r *resolver) findKeyType(leaf *plan.Acquire) (found bool, err error) {
	c := leaf.Context
	if c == nil || c.Begin.Out.Fields[0].Type != types.Null {
		return false, nil
	}
	begin := *c.Begin
	begin.Target, begin.Settings, begin.Start, begin.Stop = leaf.Target, leaf.Settings, leaf.Start, leaf.Stop
	if r.env.Values == nil {
		return false, r.placed(c.Refusal(plan.Errorf(-1, -1, "the type of its key is not known here")))
	}
	kinds, err := r.env.Values(&begin)
	if err != nil {
		return false, r.placed(c.Refusal(err))
	}
	t := kinds[0]
	if !keyType(t) {
		return false, r.placed(c.Refusal(plan.Errorf(-1, -1, "its key is a whole number or a text, and %s is %s", c.Begin.Out.Fields[0].Name, t)))
	}
	r.known[valueKey{leaf.Serial, c.Name}] = t
	return true, nil
}

// withContexts gives the acquisitions that tell a context its definition.
func (r *resolver) withContexts(root plan.Node) (plan.Node, error) {
	if len(r.contexts) == 0 {
		return root, nil
	}
	var refused error
	out := plan.TransformNodes(root, func(n plan.Node) plan.Node {
		a, ok := n.(*plan.Acquire)
		if !ok || !slices.Contains(contextual, a.Stream) {
			return n
		}
		var c *plan.Context
		for _, f := range a.Out.Fields {
			of := r.contexts[valueKey{a.Serial, f.Name}]
			if of != nil && c != nil {
				refused = r.placed(&plan.InColumn{Column: of.Name, Err: plan.Errorf(-1, -1, "a stream tells one context at a time, not %s and %s", c.Name, of.Name)})
			}
			if of != nil {
				c = of
			}
		}
		if c == nil {
			return n
		}
		own := *a
		own.Context = c
		return &own
	})
	return out, refused
}

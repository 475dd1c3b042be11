package planner

import (
	"math"
	"strings"
	"time"

	"endoscope/parser"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// exprCtx resolves expressions over one source. If agg is set it resolves over the result
// of an aggregate, whose keys and calls it recognises.
type exprCtx struct {
	r      *resolver
	in     *scope
	agg    *aggCtx
	clause string // for errors: "WHERE"
}

func (c *exprCtx) boolean(e parser.Expr) (plan.Expr, error) {
	x, err := c.resolve(e)
	if err != nil {
		return nil, err
	}
	if t := x.Type(); t != types.Boolean && t != types.Null {
		return nil, c.r.errorf(e.Pos(), "%s needs a condition, not a %s", c.clause, t)
	}
	return coerce(x, types.Boolean), nil
}

// resolve resolves the names of e and types its operators.
func (c *exprCtx) resolve(e parser.Expr) (plan.Expr, error) {
	if c.agg != nil {
		if x, ok := c.agg.key(e); ok {
			return x, nil
		}
	}
	switch e := e.(type) {
	case *parser.Literal:
		return literal(e), nil
	case *parser.ColumnRef:
		return c.columnRef(e)
	case *parser.Param:
		return c.param(e)
	case *parser.Unary:
		return c.unary(e)
	case *parser.Binary:
		return c.binary(e)
	case *parser.Between:
		return c.between(e)
	case *parser.In:
		return c.in_(e)
	case *parser.IsNull:
		x, err := c.resolve(e.X)
		if err != nil {
			return nil, err
		}
		return negated(&plan.Call{Fn: "is null", Args: []plan.Expr{untypedNull(x)}, T: types.Boolean}, e.Not), nil
	case *parser.Case:
		return c.case_(e)
	case *parser.Cast:
		x, err := c.resolve(e.X)
		if err != nil {
			return nil, err
		}
		t, ok := types.ParseType(e.Type.Name)
		if !ok {
			return nil, c.r.hintf(e.Type.Pos(), "the types are BOOLEAN, BIGINT, UBIGINT, DOUBLE, VARCHAR, TIMESTAMP, DURATION and BYTES", "there is no type %s", e.Type.Name)
		}
		if x.Type().Physical() == types.PhysAny || t == types.Bytes && x.Type() != types.Varchar && x.Type() != types.Null ||
			t == types.Boolean && (x.Type() == types.Timestamp || x.Type() == types.Duration) ||
			(t == types.Timestamp || t == types.Duration) && x.Type() == types.Boolean {
			return nil, c.r.errorf(e.Pos(), "cannot cast %s to %s", x.Type(), t)
		}
		if k, ok := x.(*plan.Const); ok && k.V.IsNull {
			return coerce(x, t), nil
		}
		c.r.noteCast(x, t)
		if x.Type() == t {
			return x, nil
		}
		return &plan.Cast{X: x, T: t}, nil
	case *parser.Read:
		return c.read(e)
	case *parser.Call:
		return c.call(e)
	}
	return nil, c.r.errorf(e.Pos(), "this expression is not supported yet")
}

// param returns the value of a parameter.
func (c *exprCtx) param(e *parser.Param) (plan.Expr, error) {
	k := &plan.Const{V: types.NullOf(types.Null), Start: e.Start, Stop: e.Stop}
	if env := c.r.env; e.N <= len(env.Params) {
		k.V = env.Params[e.N-1]
	} else if env.Unbound != nil {
		k.Param = env.Unbound.param(e.N)
	} else {
		return nil, c.r.hintf(e.Pos(), "values are given with a statement by programs: Query(ctx, \"... $1\", 42)", "$%d has no value", e.N)
	}
	return k, nil
}

func literal(l *parser.Literal) *plan.Const {
	k := &plan.Const{Start: l.Start, Stop: l.Stop}
	switch l.Kind {
	case parser.LitNull:
		k.V = types.NullOf(types.Null)
	case parser.LitBool:
		k.V = types.Bool(l.Int != 0)
	case parser.LitInt, parser.LitSize:
		k.V = types.Int(l.Int)
	case parser.LitUnsigned:
		k.V = types.Uint(uint64(l.Int))
	case parser.LitFloat, parser.LitPercent:
		k.V = types.Float(l.F)
	case parser.LitDuration:
		k.V = types.Dur(l.Int)
	case parser.LitString:
		k.V = types.Str(l.Str)
	}
	return k
}

func (c *exprCtx) columnRef(e *parser.ColumnRef) (plan.Expr, error) {
	parts := make([]string, len(e.Parts))
	for i, p := range e.Parts {
		parts[i] = p.Name
	}
	full := strings.Join(parts, ".")
	qualifier, name := "", full
	if i, n := c.in.column("", full); n > 0 {
		_ = i // a column whose name has dots, as written
	} else if len(parts) > 1 {
		qualifier, name = parts[0], strings.Join(parts[1:], ".")
	}
	i, n := c.in.column(qualifier, name)
	if n == 0 && qualifier == "" {
		// Unquoted names are matched ignoring case if that is unambiguous.
		i, n = c.in.column("", strings.ToLower(name))
	}
	switch {
	case n == 0 && c.r.shared() && isHost(e):
		return c.host(e)
	case n > 1:
		return nil, c.r.errorf(e.Pos(), "%s is in more than one source: write which, as in alias.%s", name, name)
	case n == 0 && (isPartOfResult(full) || isPartOfResult(name)):
		return nil, c.r.hintf(e.Pos(), "function_end and function_duration have it; select it in a sub-query to use it outside", "there is no function result here (%s)", full)
	case n == 0 && (parts[0] == "args" || len(parts) > 2 && parts[1] == "args"):
		return nil, c.r.hintf(e.Pos(), "function_start and function_duration have them; select them in a sub-query to use them outside", "there are no arguments here (%s)", full)
	case n == 0 && strings.HasSuffix(full, "]"):
		return nil, c.r.hintf(e.Pos(), "args.list[2] and retval[2] are elements of arguments and results", "%s has no elements here", full[:strings.LastIndexByte(full, '[')])
	case n == 0:
		return nil, c.unknownColumn(e, qualifier, name)
	}
	f := c.in.fields()[i]
	var x plan.Expr = &plan.Col{Index: i, Name: f.Name, T: f.Type}
	if c.agg != nil {
		return c.agg.column(x, f.Name, e.Pos())
	}
	return x, nil
}

// mostHaving is the largest number of streams listed for a column: common columns are in
// nearly all streams.
const mostHaving = 8

func (c *exprCtx) unknownColumn(e *parser.ColumnRef, qualifier, name string) error {
	var names []string
	for _, f := range c.in.fields() {
		names = append(names, f.Name)
	}
	if qualifier != "" {
		known := false
		for _, n := range c.in.names {
			known = known || n == qualifier
		}
		if !known {
			return c.r.hintf(e.Parts[0].Pos(), plan.DidYouMean(qualifier, c.in.names), "there is no source in FROM called %s", qualifier)
		}
	}
	hint := plan.DidYouMean(name, names)
	if c.r.env.Contexts.Get(c.r.scope().Resolve(name)) != nil {
		hint = "it is a context, which " + strings.Join(contextual, ", ") + " have: a process, or a thread in an interval, is inside of many"
	}
	if e.Parts[0].Quoted && hint == "" {
		hint = "double quotes are for names; a text is written in single quotes: '" + name + "'"
	}
	if having := catalog.Having(name); hint == "" && len(having) > 0 && len(having) <= mostHaving {
		hint = "it is of " + strings.Join(having, ", ")
	}
	if hint == "" && len(names) == 0 {
		hint = "a SELECT without FROM has no columns"
	}
	if hint == "" {
		hint = "the columns are " + strings.Join(names, ", ")
		switch {
		case name == "pid" || name == "process" || name == "exe":
			hint = "USE 'name', -p PID, --process or --exe select the process; " + hint
		case c.clause == "WHERE" && qualifier == "":
			hint = "a text is written in single quotes: '" + name + "'; " + hint
		}
	}
	return c.r.hintf(e.Pos(), hint, "there is no column %s here", name)
}

func (c *exprCtx) unary(e *parser.Unary) (plan.Expr, error) {
	x, err := c.resolve(e.X)
	if err != nil {
		return nil, err
	}
	switch e.Op {
	case "NOT":
		return c.apply("not", e.Pos(), x)
	case "-":
		if k, ok := x.(*plan.Const); ok && !k.V.IsNull {
			n := *k
			n.Start = e.Start
			switch {
			case k.V.Type == types.Double:
				n.V.F = -n.V.F
				return &n, nil
			case k.V.Type.Numeric() && !k.V.Type.Unsigned() && k.V.I != math.MinInt64:
				n.V.I = -n.V.I
				return &n, nil
			}
		}
		return c.apply("neg", e.Pos(), x)
	}
	if !x.Type().Numeric() {
		return nil, c.r.errorf(e.Pos(), "+ needs a number, not a %s", x.Type())
	}
	return x, nil
}

func (c *exprCtx) binary(e *parser.Binary) (plan.Expr, error) {
	x, err := c.resolve(e.X)
	if err != nil {
		return nil, err
	}
	y, err := c.resolve(e.Y)
	if err != nil {
		return nil, err
	}
	op, not := strings.ToLower(e.Op), false
	switch op {
	case "not like", "not ilike":
		op, not = op[4:], true
	case "!~":
		op, not = "~", true
	case "!=":
		op = "<>"
	}
	pos := e.OpPos
	if pos.Stop <= pos.Start {
		pos = e.Pos()
	}
	r, err := c.apply(op, pos, x, y)
	if err != nil {
		return nil, err
	}
	return negated(r, not), nil
}

func negated(x plan.Expr, not bool) plan.Expr {
	if !not {
		return x
	}
	return &plan.Call{Fn: "not", Args: []plan.Expr{x}, T: types.Boolean}
}

func (c *exprCtx) between(e *parser.Between) (plan.Expr, error) {
	var xs [3]plan.Expr
	for i, s := range []parser.Expr{e.X, e.Lo, e.Hi} {
		var err error
		if xs[i], err = c.resolve(s); err != nil {
			return nil, err
		}
	}
	lo, err := c.apply(">=", e.Pos(), xs[0], xs[1])
	if err != nil {
		return nil, err
	}
	hi, err := c.apply("<=", e.Pos(), xs[0], xs[2])
	if err != nil {
		return nil, err
	}
	return negated(&plan.Call{Fn: "and", Args: []plan.Expr{lo, hi}, T: types.Boolean}, e.Not), nil
}

// namesFunctions are the columns in whose IN lists bare names are read as strings.
var namesFunctions = map[string]bool{"function_name": true, "class": true, "module": true}

func (c *exprCtx) in_(e *parser.In) (plan.Expr, error) {
	x, err := c.resolve(e.X)
	if err != nil {
		return nil, err
	}
	ref, ok := e.X.(*parser.ColumnRef)
	bare := ok && namesFunctions[ref.Parts[len(ref.Parts)-1].Name]
	out := &plan.In{List: make([]plan.Const, 0, len(e.List))}
	consts := make([]plan.Expr, 0, len(e.List))
	for _, item := range e.List {
		if name, ok := item.(*parser.ColumnRef); ok && bare {
			var parts []string
			for _, p := range name.Parts {
				parts = append(parts, p.Name)
			}
			consts = append(consts, &plan.Const{V: types.Str(strings.Join(parts, ".")), Start: name.Start, Stop: name.Stop})
			continue
		}
		k, err := c.constant(item, "an IN list")
		if err != nil {
			return nil, err
		}
		consts = append(consts, k)
	}
	for i, k := range consts {
		if err := c.checkSign(e.List[i].Pos(), x, k); err != nil {
			return nil, err
		}
	}
	t, ok := common(append([]plan.Expr{x}, consts...))
	if !ok {
		for i, k := range consts {
			if _, ok := common([]plan.Expr{x, k}); !ok {
				return nil, c.r.errorf(e.List[i].Pos(), "%s cannot be compared with %s", k.Type(), x.Type())
			}
		}
		return nil, c.r.errorf(e.Pos(), "the list mixes types that cannot be compared")
	}
	out.X = coerce(x, t)
	for i, k := range consts {
		v, ok := coerce(k, t).(*plan.Const)
		if !ok {
			return nil, c.r.errorf(e.List[i].Pos(), "'%s' is not a %s", k.(*plan.Const).V.S, t)
		}
		out.List = append(out.List, *v)
	}
	return negated(out, e.Not), nil
}

// constant resolves an expression that must not depend on a row.
func (c *exprCtx) constant(e parser.Expr, where string) (*plan.Const, error) {
	x, err := (&exprCtx{r: c.r, in: &scope{node: &plan.Values{}}, clause: where}).resolve(e)
	if err != nil {
		if ref, isRef := e.(*parser.ColumnRef); isRef {
			last := ref.Parts[len(ref.Parts)-1].Name
			return nil, c.r.hintf(e.Pos(), "a text is written in single quotes: '"+last+"'", "%s needs constants", where)
		}
		return nil, err
	}
	if k, ok := x.(*plan.Const); ok {
		return k, nil
	}
	v, err := c.r.env.Eval(x)
	if err != nil {
		return nil, c.r.placed(err)
	}
	p := e.Pos()
	return &plan.Const{V: v, Start: p.Start, Stop: p.Stop}, nil
}

func (c *exprCtx) case_(e *parser.Case) (plan.Expr, error) {
	out := &plan.Case{}
	var values []plan.Expr
	for _, w := range e.Whens {
		cond := w.Cond
		if e.X != nil {
			cond = &parser.Binary{Span: w.Cond.Pos(), Op: "=", X: e.X, Y: w.Cond}
		}
		ctx := *c
		ctx.clause = "CASE WHEN"
		b, err := ctx.boolean(cond)
		if err != nil {
			return nil, err
		}
		v, err := c.resolve(w.Then)
		if err != nil {
			return nil, err
		}
		out.Whens = append(out.Whens, plan.When{Cond: b, Then: v})
		values = append(values, v)
	}
	if e.Else != nil {
		v, err := c.resolve(e.Else)
		if err != nil {
			return nil, err
		}
		out.Else = v
		values = append(values, v)
	}
	t, ok := common(values)
	if !ok {
		return nil, c.r.errorf(e.Pos(), "the branches of this CASE have types that do not fit together")
	}
	if t == types.Null {
		t = types.Varchar
	}
	out.T = t
	for i := range out.Whens {
		out.Whens[i].Then = coerce(out.Whens[i].Then, t)
	}
	if out.Else != nil {
		out.Else = coerce(out.Else, t)
	}
	return out, nil
}

// parseTime parses a text literal where a TIMESTAMP is expected.
func parseTime(s string) (int64, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, s, time.UTC); err == nil {
			return t.UnixNano(), true
		}
	}
	return 0, false
}

package planner

import (
	"slices"
	"strconv"
	"strings"

	"endoscope/parser"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// encoderCall resolves the arguments of a call of an encoder (see
// plan.EncoderForm) into out.
func (c *exprCtx) encoderCall(f *plan.AggFunc, e *parser.Call, out *plan.Agg) error {
	a := &encoderArgs{c: c, f: f, e: e, out: out, rows: &exprCtx{r: c.r, in: c.agg.inner.in, clause: "an aggregate"}}
	var values, named []*parser.Arg
	for _, arg := range e.Args {
		if arg.Name != nil {
			named = append(named, arg)
		} else if len(named) > 0 {
			return c.r.errorf(arg.Pos(), "arguments without a name come before %s => ...", named[0].Name.Name)
		} else {
			values = append(values, arg)
		}
	}
	given := map[string]plan.NamedValue{}
	if f.Encoder.Model {
		rest, err := a.model(values)
		if err != nil {
			return err
		}
		values = rest
	}
	// Constants follow the columns.
	n := slices.IndexFunc(values, func(arg *parser.Arg) bool { return isConstant(arg.X) })
	if n < 0 {
		n = len(values)
	}
	if err := a.tokens(values[:n]); err != nil {
		return err
	}
	for i, arg := range values[n:] {
		if i >= len(f.Encoder.Options) {
			return a.refuse(arg.Pos(), "%s takes %s after what it encodes", strings.ToUpper(f.Name), atMost(len(f.Encoder.Options)))
		}
		v, err := a.option(&f.Encoder.Options[i], arg)
		if err != nil {
			return err
		}
		v.ByPosition = true
		given[v.Name] = v
	}
	for _, arg := range named {
		if err := a.named(arg, given); err != nil {
			return err
		}
	}
	if f.Encoder.Model {
		a.open(given)
	}
	for _, o := range f.Encoder.Options {
		if v, ok := given[o.Name]; ok {
			out.Options = append(out.Options, v)
		} else if o.Required || o.RequiredLive && !a.rows.in.finite {
			return a.refuse(e.Pos(), "%s needs %s", strings.ToUpper(f.Name), o.Name)
		}
	}
	if err := a.lineage(); err != nil {
		return err
	}
	if i := out.Named(plan.InnerArgument); i >= 0 && out.Named(plan.SequenceArgument) < 0 {
		return a.refuse(a.e.Pos(), "inner => needs sequence =>, the object whose methods' calls they are")
	}
	a.implied()
	out.T = f.Result(types.Varchar)
	return nil
}

// encoderArgs is the state of resolving a call.
type encoderArgs struct {
	c    *exprCtx
	rows *exprCtx // over the aggregate's input
	f    *plan.AggFunc
	e    *parser.Call
	out  *plan.Agg
}

func isConstant(e parser.Expr) bool {
	if u, ok := e.(*parser.Unary); ok {
		e = u.X
	}
	_, ok := e.(*parser.Literal)
	return ok
}

// either formats words as alternatives.
func either(words []string) string {
	n := len(words) - 1
	if n < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:n], ", ") + " or " + words[n]
}

func atMost(n int) string {
	if n == 1 {
		return "one constant"
	}
	return "at most " + strconv.Itoa(n) + " constants"
}

func (a *encoderArgs) refuse(at parser.Span, format string, args ...any) error {
	return a.c.r.hintf(at, "for example "+a.f.Encoder.Example, format, args...)
}

// tokens resolves the encoded columns.
func (a *encoderArgs) tokens(columns []*parser.Arg) error {
	upper := strings.ToUpper(a.f.Name)
	calls := a.f.Encoder.Calls
	switch {
	case len(columns) == 0 && calls:
		for _, name := range []string{"event", "function_name"} {
			x := a.columnOf(name, types.Varchar)
			if x == nil {
				return a.refuse(a.e.Pos(), "%s encodes calls: name the columns of the event (ENTER or LEAVE) and of the function", upper)
			}
			a.add("", x)
		}
		return nil
	case len(columns) == 0:
		return a.refuse(a.e.Pos(), "%s needs a column to encode", upper)
	case len(columns) == 1 && calls:
		return a.refuse(columns[0].Pos(), "%s encodes calls: it takes the event (ENTER or LEAVE) and the function", upper)
	case len(columns) > 2:
		return a.refuse(columns[2].Pos(), "%s takes a column of tokens, or an event and a function", upper)
	}
	for i, arg := range columns {
		x, err := a.rows.resolve(arg.X)
		if err != nil {
			return err
		}
		x = untypedNull(x)
		switch {
		case x.Type().Physical() == types.PhysAny, x.Type() == types.Bytes:
			return a.refuse(arg.Pos(), "%s does not take a %s", upper, x.Type())
		case i == 0 && len(columns) == 2 && x.Type() != types.Varchar:
			return a.refuse(arg.Pos(), "%s of two columns encodes calls: the first must be ENTER or LEAVE", upper)
		}
		a.add("", asText(x))
	}
	return nil
}

func asText(x plan.Expr) plan.Expr {
	if x.Type() == types.Varchar {
		return x
	}
	return &plan.Cast{X: x, T: types.Varchar}
}

func (a *encoderArgs) add(name string, x plan.Expr) {
	a.out.Args = append(a.out.Args, x)
	a.out.ArgNames = append(a.out.ArgNames, name)
}

// columnOf returns the input's column of that name and type, or nil.
func (a *encoderArgs) columnOf(name string, t types.Type) plan.Expr {
	i, n := a.rows.in.column("", name)
	if n != 1 {
		return nil
	}
	field := a.rows.in.fields()[i]
	if field.Type != t {
		return nil
	}
	return &plan.Col{Index: i, Name: field.Name, T: t}
}

// option resolves a constant argument.
func (a *encoderArgs) option(o *plan.EncoderOption, arg *parser.Arg) (plan.NamedValue, error) {
	v := plan.NamedValue{Name: o.Name}
	word, isWord := wordOf(arg.X)
	if i := slices.IndexFunc(o.Words, func(w string) bool { return isWord && strings.EqualFold(w, word) }); i >= 0 {
		v.Text = o.Words[i]
		v.V = types.Str(v.Text)
		if o.Type == types.Bigint {
			v.V = types.Int(int64(i))
		}
		return v, nil
	}
	if o.Type != types.Bigint {
		return v, a.refuse(arg.X.Pos(), "%s is %s", o.Name, either(o.Words))
	}
	k, err := a.c.constant(arg.X, strings.ToUpper(a.f.Name))
	if err != nil {
		return v, err
	}
	v.V, v.Text = k.V, plan.FormatValue(k.V)
	if v.V.IsNull || v.V.Type != types.Bigint || v.V.I < o.Min || v.V.I > o.Max {
		return v, a.refuse(arg.X.Pos(), "%s is a number from %d to %d", o.Name, o.Min, o.Max)
	}
	return v, nil
}

// wordOf returns e as a word: bare, as a string, or TRUE and FALSE for on and off.
func wordOf(e parser.Expr) (string, bool) {
	switch e := e.(type) {
	case *parser.ColumnRef:
		if len(e.Parts) == 1 {
			return e.Parts[0].Name, true
		}
	case *parser.Literal:
		switch e.Kind {
		case parser.LitString:
			return e.Str, true
		case parser.LitBool:
			return map[bool]string{true: "on", false: "off"}[e.Int != 0], true
		}
	}
	return "", false
}

// named resolves name => value.
func (a *encoderArgs) named(arg *parser.Arg, given map[string]plan.NamedValue) error {
	name := strings.ToLower(arg.Name.Name)
	upper := strings.ToUpper(a.f.Name)
	if _, twice := given[name]; twice || a.out.Named(name) >= 0 {
		return a.c.r.errorf(arg.Name.Pos(), "%s is given twice", name)
	}
	names := []string{plan.TimeArgument, plan.SequenceArgument, plan.BornArgument, plan.DiesArgument, plan.InnerArgument}
	if a.f.Encoder.Untimed {
		names = names[1:]
	}
	if a.f.Encoder.Lineage {
		names = append(names, plan.LineageArgument)
	}
	if a.f.Encoder.Activity {
		names = append(names, plan.WaitsArgument, plan.BytesArgument)
	}
	for i := range a.f.Encoder.Options {
		o := &a.f.Encoder.Options[i]
		if o.Name == name {
			v, err := a.option(o, arg)
			given[name] = v
			return err
		}
		names = append(names, o.Name)
	}
	if !slices.Contains(names[:len(names)-len(a.f.Encoder.Options)], name) {
		return a.c.r.hintf(arg.Name.Pos(), "it has "+strings.Join(names, ", "), "%s has no argument called %s", upper, arg.Name.Name)
	}
	if name == plan.BornArgument || name == plan.DiesArgument || name == plan.WaitsArgument {
		x, err := a.rows.boolean(arg.X)
		if err == nil {
			a.add(name, x)
		}
		return err
	}
	x, err := a.rows.resolve(arg.X)
	if err != nil {
		return err
	}
	switch {
	case name == plan.TimeArgument && len(a.tokenArgs()) == 2:
		return a.c.r.errorf(arg.Name.Pos(), "calls take the time between ENTER and LEAVE: time => is for tokens")
	case name == plan.TimeArgument && x.Type() != types.Duration && x.Type() != types.Bigint:
		return a.c.r.errorf(arg.X.Pos(), "time => is a DURATION, or ns, not a %s", x.Type())
	case x.Type().Physical() == types.PhysAny || x.Type() == types.Null:
		return a.c.r.errorf(arg.X.Pos(), "sequences cannot be distinguished by a %s", x.Type())
	case name == plan.InnerArgument && (len(a.tokenArgs()) != 2 || x.Type().Physical() != types.PhysInt):
		return a.c.r.hintf(arg.Name.Pos(), "for example GRAMMAR(event, function_name, sequence => receiver, inner => tid)", "inner => is the thread, a number, of calls: an event and a function")
	case name == plan.BytesArgument && x.Type() != types.Bigint:
		return a.c.r.errorf(arg.X.Pos(), "bytes => is a BIGINT, not a %s", x.Type())
	case name == plan.LineageArgument && x.Type() != types.Varchar:
		return a.c.r.errorf(arg.X.Pos(), "lineage => is a VARCHAR such as 'Circle < Round < Shape', not a %s", x.Type())
	case name == plan.SequenceArgument && x.Type().Physical() != types.PhysInt:
		x = asText(x)
	}
	a.add(name, x)
	return nil
}

// tokenArgs returns the arguments that are encoded.
func (a *encoderArgs) tokenArgs() []plan.Expr {
	n := slices.IndexFunc(a.out.ArgNames, func(name string) bool { return name != "" })
	if n < 0 {
		n = len(a.out.Args)
	}
	return a.out.Args[:n]
}

// implied adds the default arguments.
func (a *encoderArgs) implied() {
	if len(a.tokenArgs()) == 2 {
		if by := a.sequenceOfCalls(); by != nil && a.out.Named(plan.SequenceArgument) < 0 {
			a.add(plan.SequenceArgument, by)
			a.out.Implied++
		}
		return
	}
	if took := a.columnOf("duration", types.Duration); took != nil && !a.f.Encoder.Untimed && a.out.Named(plan.TimeArgument) < 0 {
		a.add(plan.TimeArgument, took)
		a.out.Implied++
	}
}

// lineage adds the column with the base classes, if it is missing.
func (a *encoderArgs) lineage() error {
	if !a.f.Encoder.Lineage || a.out.Named(plan.LineageArgument) >= 0 {
		return nil
	}
	if c, ok := a.out.Args[0].(*plan.Col); ok {
		name := strings.TrimSuffix(c.Name, "_class") + plan.LineageSuffix
		if x := a.columnOf(name, types.Varchar); x != nil {
			a.add(plan.LineageArgument, x)
			a.out.Implied++
			return nil
		}
	}
	return a.refuse(a.e.Pos(), "%s needs the base classes: lineage => column", strings.ToUpper(a.f.Name))
}

// sequenceOfCalls returns the expression that separates sequences of calls: the thread, or,
// where there is one, the goroutine, whose number is unique within its process. nil:
// unknown, or each group already is one sequence.
func (a *encoderArgs) sequenceOfCalls() plan.Expr {
	tid, goroutine, pid := a.columnOf("tid", types.Bigint), a.columnOf("goroutine", types.Bigint), a.columnOf("pid", types.Bigint)
	switch {
	case tid == nil:
		return nil
	case goroutine != nil && pid != nil && !(a.grouped(tid) && a.grouped(goroutine)):
		const pids = 1 << 22 // PID_MAX_LIMIT: above what any tid is
		number := func(fn string, x, y plan.Expr) plan.Expr {
			return &plan.Call{Fn: fn, Args: []plan.Expr{x, y}, T: types.Bigint}
		}
		return number("coalesce", number("+", number("*", goroutine, &plan.Const{V: types.Int(pids)}), pid), tid)
	case a.grouped(tid):
		return nil
	}
	return tid
}

// grouped reports whether x is a key of GROUP BY.
func (a *encoderArgs) grouped(x plan.Expr) bool {
	_, ok := a.c.agg.keyCol(x)
	return ok
}

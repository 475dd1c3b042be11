package planner

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"endoscope/parser"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Values are columns of function streams that no catalog lists: args, args.NAME,
// args.a[1].b, retval.NAME, retval[1], arg6, what functions read at a pointer (str(arg0) or
// str(arg0, 64), hex(arg0, 16), symbol(arg0)), and memory read as a type of the program:
// CAST(arg0 AS 'struct task *').name. Those that a statement names are
// added to the streams that it may refer to; pruning removes them where unused. Argument
// types are known only from programs, and the programs only from the plan. So a statement
// is resolved with unknown types (NULL, which is compatible with any), and again once the
// plan shows which types they have.

// valueKey is a value of one of a statement's acquisitions, by its number.
type valueKey struct {
	serial int
	name   string
}

// errTypesFound is returned when types became known: the statement must be resolved again.
var errTypesFound = errors.New("planner: types of values were found")

// resolving calls resolve until all required types are known.
func resolving[T any](env *Env, src string, resolve func(*resolver) (T, error)) (T, error) {
	known := map[valueKey]types.Type{}
	for {
		r := &resolver{env: env, src: src, known: known}
		out, err := resolve(r)
		if err != errTypesFound {
			return out, err
		}
	}
}

// findTypes looks up the unknown types of values. It returns errTypesFound if there were some.
func (r *resolver) findTypes(root plan.Node) error {
	found := false
	for _, leaf := range plan.Leaves(root) {
		more, err := r.findKeyType(leaf)
		if err != nil {
			return err
		}
		found = found || more
		var unknown []int
		for i, f := range leaf.Out.Fields {
			if f.Type == types.Null && (isValue(f.Name) || f.Name == resultColumn) {
				unknown = append(unknown, i)
			}
		}
		if len(unknown) == 0 {
			continue
		}
		if r.env.Values == nil {
			f := leaf.Out.Fields[unknown[0]]
			return r.hintf(parser.Span{Start: leaf.Start, Stop: leaf.Stop}, "arg0 to arg5 are the raw arguments", "the type of %s is not known here", f.Name)
		}
		kinds, err := r.env.Values(r.withCasts(leaf, unknown))
		if err != nil {
			return r.placed(err)
		}
		for _, i := range unknown {
			r.known[valueKey{leaf.Serial, leaf.Out.Fields[i].Name}] = kinds[i]
			found = true
		}
	}
	if found {
		return errTypesFound
	}
	return nil
}

// noteCast records the type to which the statement casts a value of unknown type.
func (r *resolver) noteCast(x plan.Expr, to types.Type) {
	c, ok := x.(*plan.Col)
	if !ok || c.T != types.Null || !isValue(c.Name) {
		return
	}
	switch to {
	case types.Timestamp, types.Duration:
		to = types.Bigint // the type that the cast converts from
	case types.Bytes:
		to = types.Varchar
	}
	if r.castTypes == nil {
		r.castTypes = map[string][]types.Type{}
	}
	if !slices.Contains(r.castTypes[c.Name], to) {
		r.castTypes[c.Name] = append(r.castTypes[c.Name], to)
	}
}

// withCasts returns an acquisition whose values have the types to which the statement casts
// them, if it casts each to a single type: a program that does not run yet has no type
// information.
func (r *resolver) withCasts(a *plan.Acquire, values []int) *plan.Acquire {
	out := *a
	out.Out.Fields = slices.Clone(a.Out.Fields)
	for _, i := range values {
		f := &out.Out.Fields[i]
		if to := r.castTypes[f.Name]; len(to) == 1 && isValue(f.Name) {
			f.Type = to[0]
		}
	}
	return &out
}

// values returns the values of a source that the statement may refer to.
func (r *resolver) values(st *catalog.Stream, s *parser.Source) []types.Field {
	_, hasArgs := st.Column("arg0")
	_, hasResult := st.Column("retval")
	if !hasArgs && !hasResult {
		return nil
	}
	own := st.Name
	if s.Alias != nil {
		own = s.Alias.Name
	}
	var out []types.Field
	seen := map[string]bool{}
	for _, v := range namedValues(r.src) {
		if seen[v.name] || v.qualifier != "" && v.qualifier != own || v.result && !hasResult || !v.result && !hasArgs {
			continue
		}
		seen[v.name] = true
		f := types.Field{Name: v.name, Qualifier: st.Name, Type: v.t}
		if v.t == types.Invalid {
			f.Type = types.Null
			if t, ok := r.knownType(v.name); ok {
				f.Type = t
			}
		}
		out = append(out, f)
	}
	return out
}

// knownType returns the type of a value of the acquisition that is being resolved.
func (r *resolver) knownType(name string) (types.Type, bool) {
	if r.shared() && r.share.nothing {
		return types.Bigint, true // a share without rows
	}
	t, ok := r.known[valueKey{r.serial, name}]
	return t, ok
}

// resultColumn is the result of functions. The catalog lists it with the type used when a
// program's types are unknown.
const resultColumn = "retval"

// resultOf sets the type of the function result to the type in the program, if a statement
// may refer to it.
func (r *resolver) resultOf(st *catalog.Stream, a *plan.Acquire) {
	i := a.Out.Index(resultColumn)
	if i < 0 || !st.Functions || r.env.Values == nil {
		return
	}
	a.Results = plan.TypedResults
	if r.namesColumn(resultColumn) {
		a.Results = plan.NamedResults
	}
	a.Out.Fields[i].Type = types.Null
	if t, ok := r.knownType(resultColumn); ok {
		a.Out.Fields[i].Type = t
	}
}

// isValue reports whether a column is a value: * excludes them.
func isValue(name string) bool {
	reader, _, isCall := strings.Cut(name, "(")
	return strings.HasPrefix(name, "args.") || name == plan.AllArguments || isPartOfResult(name) || plan.IsStackArgument(name) || isCall && pointerReaders[reader] || plan.IsRead(name)
}

// isPartOfResult reports whether a column is a field or an element of the result.
func isPartOfResult(name string) bool {
	rest, ok := strings.CutPrefix(name, resultColumn)
	return ok && rest != "" && (rest[0] == '.' || rest[0] == '[')
}

// hasArguments reports whether the tuples are calls, whose arguments can be named.
func (s *scope) hasArguments() bool {
	_, n := s.column("", "arg0")
	return n > 0
}

// starredArguments returns the error for args.*.
func (r *resolver) starredArguments(pos parser.Span) error {
	return r.hintf(pos, "args is all of them as one object, args.name is one; DESCRIBE FUNCTION lists the arguments of a function", "arguments are named one by one")
}

// namedValue is a value named in a statement.
type namedValue struct {
	qualifier, name string
	t               types.Type // Invalid: known from the program only
	result          bool
	at              parser.Span
}

// isWholeName reports whether a name, in any case, is that of a value by itself: args, arg6.
func isWholeName(name string) bool {
	name = strings.ToLower(name)
	return name == plan.AllArguments || plan.IsStackArgument(name)
}

// namedValues finds the values that a text names.
func namedValues(src string) (list []namedValue) {
	tokens := slices.DeleteFunc(parser.Highlight(src), func(t parser.Token) bool { return t.Kind == parser.TokenComment })
	word := func(i int) string {
		if i < 0 || i >= len(tokens) {
			return ""
		}
		return src[tokens[i].Start:tokens[i].Stop]
	}
	indexed := func(i int) bool { return strings.HasPrefix(word(i), "[") && tokens[i].Kind == parser.TokenNumber }
	// path parses a.b[1].c from token i on, and returns its end.
	path := func(i int) (parts []string, end int) {
		for {
			part := unquoted(word(i))
			for i++; indexed(i); i++ {
				part += word(i)
			}
			parts = append(parts, part)
			if word(i) != "." {
				return parts, i
			}
			i++
		}
	}
	reads := map[int]*parser.Read{} // by offset
	for _, m := range parser.Reads(src) {
		reads[m.Pos().Start] = m
		if v, ok := readOf(m); ok {
			list = append(list, v)
		}
	}
	// operand parses what a pointer reader is applied to from token i on.
	operand := func(i int) (v namedValue, end int, ok bool) {
		if i >= len(tokens) {
			return v, i, false
		}
		if m := reads[tokens[i].Start]; m != nil {
			for end = i; end < len(tokens) && tokens[end].Start < m.Pos().Stop; {
				end++
			}
			v, ok = readOf(m)
			return v, end, ok
		}
		parts, end := path(i)
		v, ok = beginOf(parts)
		return v, end, ok
	}
	for i := range tokens {
		switch {
		case tokens[i].Kind == parser.TokenFunction && pointerReaders[strings.ToLower(word(i))] && word(i+1) == "(":
			v, end, ok := operand(i + 2)
			limit := ""
			if word(end) == "," && tokens[end+1].Kind == parser.TokenNumber {
				if n, whole := parser.WholeNumber(word(end + 1)); whole {
					limit = strconv.FormatInt(n, 10)
				}
				end += 2
			}
			if reader := strings.ToLower(word(i)); ok && word(end) == ")" && (reader != "hex" || limit != "" || isNumberToWrite(v.name)) {
				v.readBy(reader, limit)
				v.at = parser.Span{Start: tokens[i].Start, Stop: tokens[end].Stop}
				list = append(list, v)
			}
		case tokens[i].Kind == parser.TokenName && word(i-1) != "." && (word(i+1) == "." || indexed(i+1) || isWholeName(word(i))):
			parts, end := path(i)
			v := namedValue{at: parser.Span{Start: tokens[i].Start, Stop: tokens[end-1].Stop}}
			named := func() bool {
				if len(parts) == 1 && isWholeName(parts[0]) {
					parts[0] = strings.ToLower(parts[0])
				}
				name := strings.Join(parts, ".")
				v.result, v.t = isPartOfResult(name), types.Invalid
				switch {
				case name == plan.AllArguments:
					v.t = types.Varchar
				case plan.IsStackArgument(name):
					v.t = types.Bigint
				default:
					return v.result || strings.HasPrefix(name, "args.")
				}
				return true
			}
			if !named() {
				if len(parts) == 1 {
					continue
				}
				v.qualifier, parts = parts[0], parts[1:]
			}
			if named() {
				v.name = strings.Join(parts, ".")
				list = append(list, v)
			}
		}
	}
	return list
}

// placeOfColumn returns the position where a statement first names the column of an error.
func placeOfColumn(column, src string) (at parser.Span, ok bool) {
	for _, v := range append(namedValues(src), namedColumn(src, column)...) {
		if v.name == column {
			return v.at, true
		}
	}
	return at, false
}

// namedColumn finds a column in a text, qualified or not.
func namedColumn(src, column string) (list []namedValue) {
	for _, t := range parser.Highlight(src) {
		if t.Kind == parser.TokenName && strings.EqualFold(src[t.Start:t.Stop], column) {
			list = append(list, namedValue{name: column, at: t.Span})
		}
	}
	return list
}

func unquoted(name string) string {
	if len(name) > 1 && name[0] == '"' {
		return strings.ReplaceAll(name[1:len(name)-1], `""`, `"`)
	}
	return name
}

// beginOf returns the value at which a reading of memory begins: [alias.]arg0, retval,
// retval.a, args.a[1].b.
func beginOf(parts []string) (namedValue, bool) {
	v := namedValue{}
	raw := func(p string) bool { _, ok := plan.RawArgument(p); return ok }
	ok := func(p string) bool {
		return p == "args" || p == resultColumn || isPartOfResult(p) || raw(p)
	}
	if !ok(strings.ToLower(parts[0])) && len(parts) > 1 {
		v.qualifier, parts = parts[0], parts[1:]
	}
	first := strings.ToLower(parts[0])
	if !ok(first) || first == "args" && len(parts) == 1 || raw(first) && len(parts) > 1 {
		return v, false
	}
	v.result = strings.HasPrefix(first, resultColumn)
	v.name = strings.Join(append([]string{first}, parts[1:]...), ".")
	return v, true
}

// readOf returns the value that a read of memory is. Its name is the canonical text of the
// read, without an alias. ok is false if it does not begin at an argument or a result.
func readOf(m *parser.Read) (v namedValue, ok bool) {
	v.at = m.Pos()
	copied := func(m *parser.Read) *parser.Read {
		c := *m
		c.Path = nil
		for _, part := range m.Path { // quoted only where that is needed
			c.Path = append(c.Path, &parser.Ident{Name: part.Name})
		}
		return &c
	}
	outermost := copied(m)
	last := outermost
	for {
		inner, more := last.X.(*parser.Read)
		if !more {
			break
		}
		c := copied(inner)
		last.X, last = c, c
	}
	var parts []string
	for _, p := range last.X.(*parser.ColumnRef).Parts {
		parts = append(parts, p.Name)
	}
	begin, ok := beginOf(parts)
	if !ok {
		return v, false
	}
	v.qualifier, v.result = begin.qualifier, begin.result
	at := &parser.ColumnRef{}
	for _, part := range plan.SplitPath(begin.name) {
		at.Parts = append(at.Parts, &parser.Ident{Name: part})
	}
	last.X = at
	v.name = outermost.String()
	return v, true
}

// read resolves CAST(arg0 AS 'struct task *').name: as a text, it is acquired.
func (c *exprCtx) read(e *parser.Read) (plan.Expr, error) {
	const usage = "CAST(arg0 AS 'struct task *').name, container_of(args.link, 'struct task', 'link').name"
	v, ok := readOf(e)
	if !ok {
		return nil, c.r.hintf(e.Pos(), usage, "memory is read at an argument or a result of a call, or at memory read before")
	}
	i, n := c.in.column(v.qualifier, v.name)
	switch {
	case n > 1:
		return nil, c.r.errorf(e.Pos(), "%s is in more than one source: write which, as in alias.arg0", e)
	case n == 0:
		return nil, c.r.hintf(e.Pos(), usage, "memory is read when a call of a function stream begins or ends: there are no calls here")
	}
	f := c.in.fields()[i]
	var x plan.Expr = &plan.Col{Index: i, Name: f.Name, T: f.Type}
	if c.agg != nil {
		return c.agg.column(x, f.Name, e.Pos())
	}
	return x, nil
}

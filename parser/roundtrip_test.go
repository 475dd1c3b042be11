package parser

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// roundTrip checks that a statement's text means the same statement, and is
// its own text.
func roundTrip(t interface {
	Helper()
	Fatalf(string, ...any)
}, s Statement) {
	t.Helper()
	text := s.String()
	again, err := Parse(text)
	if err != nil {
		t.Fatalf("%s\ncannot be read again: %v", text, err)
	}
	if diff := cmp.Diff(s, again, cmpopts.IgnoreTypes(Span{})); diff != "" {
		t.Fatalf("%s\nread again is another statement (-before +after):\n%s", text, diff)
	}
	if second := again.String(); second != text {
		t.Fatalf("printed  %s\nand then %s", text, second)
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { roundTrip(t, gen{t, 3}.statement()) })
}

// TestNodeText checks that a part of a statement prints as it does in the
// statement.
func TestNodeText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := gen{t, 3}.statement()
		whole := s.String()
		walk(reflect.ValueOf(s), func(n any) {
			if _, ok := n.(*Ident); ok {
				return // quoted or not as its place asks: args.end, but "end"
			}
			if part, ok := n.(fmt.Stringer); ok && !strings.Contains(whole, part.String()) {
				t.Fatalf("%T prints %s, which is no part of %s", n, part, whole)
			}
		})
	})
}

// walk visits the nodes of a tree.
func walk(v reflect.Value, visit func(any)) {
	v = elem(v)
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			visit(v.Interface())
			walk(v.Elem(), visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			walk(v.Field(i), visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			walk(v.Index(i), visit)
		}
	}
}

func FuzzRoundTrip(f *testing.F) {
	for _, src := range corpus {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		statements, _ := parseAll(src)
		for _, s := range statements {
			roundTrip(t, s)
		}
	})
}

// gen makes random trees, as the parser would make them. depth bounds how deep.
type gen struct {
	*rapid.T
	depth int
}

func (g gen) deeper() gen { return gen{g.T, g.depth - 1} }

func pick[T any](g gen, from ...T) T { return rapid.SampledFrom(from).Draw(g.T, "pick") }

func (g gen) chance() bool { return rapid.Bool().Draw(g.T, "chance") }

// maybe is a value or nothing.
func maybe[T any](g gen, make func() T) (none T) {
	if g.chance() {
		return make()
	}
	return none
}

func many[T any](g gen, least int, make func() T) (list []T) {
	for range rapid.IntRange(least, least+2).Draw(g.T, "n") {
		list = append(list, make())
	}
	return list
}

func (g gen) model() Statement {
	return &CreateModel{Replace: g.chance(), Name: g.ident(), Query: g.query()}
}

func (g gen) trigger() Statement {
	return &CreateTrigger{Replace: g.chance(), Once: g.chance(), Name: g.ident(), From: g.from(), When: g.expr(), Actions: many(g, 1, g.action)}
}

func (g gen) export() Statement {
	option := func() *Option { return &Option{Name: g.ident(), X: g.expr()} }
	return &CreateExport{Replace: g.chance(), Name: g.ident(), To: maybe(g, g.str),
		Options: maybe(g, func() []*Option { return many(g, 0, option) }), Query: g.query()}
}

func (g gen) edge() *Edge { return &Edge{Stream: g.ident(), Where: g.expr()} }

func (g gen) statement() Statement {
	switch rapid.IntRange(0, 15).Draw(g.T, "statement") {
	case 0:
		if g.chance() {
			return &Explain{Analyze: g.chance(), Of: g.query()}
		}
		return &Explain{Of: pick[Statement](g, g.model(), g.trigger(), g.export())}
	case 1:
		return &CreateStream{Replace: g.chance(), Name: g.ident(), Query: g.query()}
	case 2:
		return g.model()
	case 3:
		return g.trigger()
	case 4:
		return &Drop{Kind: pick(g, "STREAM", "TRIGGER", "MODEL", "EXPORT", "CONTEXT"), IfExists: g.chance(), Name: g.ident()}
	case 5:
		return g.insert()
	case 6:
		return pick(g, &Use{None: true}, &Use{PID: g.integer()}, &Use{Name: g.str()}, &Use{In: g.str()})
	case 7:
		return &Stop{ID: pick(g, g.integer(), &Literal{Kind: LitString, Text: "q7", Str: "q7"}, g.str())}
	case 8:
		return &Suspend{Thread: maybe(g, g.str)}
	case 9:
		return &Resume{Thread: maybe(g, g.str)}
	case 10:
		negative := &Literal{Kind: LitDuration, Text: "-5ms", Int: -5e6}
		return &Set{Key: g.ident(), Value: pick(g, g.literal(), negative, &Literal{Kind: LitString, Text: "exact", Str: "exact"})}
	case 11:
		return &Show{What: pick(g, showable...), Like: maybe(g, g.str)}
	case 12:
		return &Describe{Function: g.chance(), Name: g.stream()}
	case 13:
		return g.export()
	case 14:
		return &CreateContext{Replace: g.chance(), Name: g.ident(), Begin: g.edge(), Key: g.expr(), End: maybe(g, g.edge)}
	}
	return g.query()
}

func (g gen) action() Action {
	switch rapid.IntRange(0, 6).Draw(g.T, "action") {
	case 0:
		return &ActSample{Stream: g.stream(), Every: g.duration(), For: maybe(g, g.duration)}
	case 1:
		return &ActMonitor{Stream: g.stream(), Where: g.maybeExpr(), For: maybe(g, g.duration)}
	case 2:
		return &ActStop{Stream: g.stream()}
	case 3:
		return &ActNotify{Text: g.str()}
	case 4:
		return &ActWebhook{URL: g.str()}
	case 5:
		return g.insert()
	}
	return g.query()
}

func (g gen) insert() *Insert { return &Insert{Path: g.str(), Query: g.query()} }

func (g gen) query() *Query {
	g = g.deeper()
	q := &Query{
		With:    maybe(g, func() []*CTE { return many(g, 0, func() *CTE { return &CTE{Name: g.ident(), Query: g.smallQuery()} }) }),
		Selects: many(g, 1, g.selectFrom),
		OrderBy: maybe(g, func() []*OrderItem {
			return many(g, 0, func() *OrderItem { return &OrderItem{X: g.expr(), Desc: g.chance()} })
		}),
		Limit: maybe(g, g.integer),
		Emit:  pick(g, nil, &Emit{Mode: "FINAL"}, &Emit{Mode: "CHANGES"}, &Emit{Mode: "EVERY", Every: g.duration()}),
		For:   maybe(g, g.duration),
	}
	if q.Limit != nil {
		q.Offset = maybe(g, g.integer)
	}
	return q
}

func (g gen) smallQuery() *Query {
	if g.depth > 0 {
		return g.query()
	}
	return &Query{Selects: []*Select{{From: &From{First: &Source{Name: g.stream()}}}}}
}

func (g gen) selectFrom() *Select {
	s := &Select{
		Distinct: g.chance(), Items: many(g, 0, g.item), From: g.from(), Where: g.maybeExpr(),
		GroupBy: maybe(g, g.exprs), Having: g.maybeExpr(),
	}
	if g.chance() { // without FROM there are no columns
		s.From, s.Where = nil, nil
		s.Items = many(g, 1, func() *SelectItem {
			x := pick[Expr](g, g.literal(), &Call{Name: &Ident{Name: "now"}}, &Binary{Op: "+", X: &Literal{Kind: LitInt, Text: "5", Int: 5}, Y: g.duration()})
			return &SelectItem{X: x, Alias: maybe(g, g.ident)}
		})
	}
	return s
}

func (g gen) item() *SelectItem {
	switch rapid.IntRange(0, 4).Draw(g.T, "item") {
	case 0:
		return &SelectItem{Star: true}
	case 1:
		return &SelectItem{Star: true, Qualifier: g.ident()}
	}
	return &SelectItem{X: g.expr(), Alias: maybe(g, g.ident)}
}

func (g gen) from() *From {
	return &From{First: g.source(), Joins: many(g, 0, g.join)}
}

func (g gen) join() *Join {
	j := &Join{Kind: pick(g, JoinPlain, JoinWindow, JoinLeftWindow, JoinAsOf), Right: g.source(), On: g.maybeExpr()}
	if j.Kind == JoinWindow || j.Kind == JoinLeftWindow {
		j.Within = g.duration()
		j.FollowedBy = maybe(g, func() *FollowedBy { return &FollowedBy{First: g.stream(), Second: g.stream()} })
	}
	return j
}

func (g gen) source() *Source {
	s := &Source{Alias: maybe(g, g.ident)}
	kinds := []SourceKind{SourceStream, SourceSample, SourceFile, SourceSeries}
	if g.depth > 0 {
		kinds = append(kinds, SourceTumble, SourceHop, SourceSession, SourceConsistent, SourceQuery)
	}
	g = g.deeper()
	switch s.Kind = pick(g, kinds...); s.Kind {
	case SourceStream:
		s.Name = g.stream()
	case SourceSample:
		s.Name, s.Args = g.stream(), []*Literal{g.duration()}
	case SourceTumble:
		s.Src, s.Args = g.source(), []*Literal{pick(g, g.duration(), g.integer())}
	case SourceHop:
		s.Src, s.Args = g.source(), []*Literal{g.duration(), g.duration()}
	case SourceSession:
		s.Src, s.Args, s.By = g.source(), []*Literal{g.duration()}, maybe(g, g.exprs)
	case SourceConsistent:
		s.Src = g.source()
	case SourceFile:
		s.Args = []*Literal{g.str()}
	case SourceSeries:
		s.Args = []*Literal{g.integer()}
	case SourceQuery:
		s.Query = g.smallQuery()
	}
	return s
}

func (g gen) maybeExpr() Expr { return maybe(g, g.expr) }

func (g gen) exprs() []Expr { return many(g, 1, g.expr) }

func (g gen) expr() Expr {
	if g.depth <= 0 {
		return pick[Expr](g, g.column(), g.literal(), &Param{N: rapid.IntRange(1, maxParam).Draw(g.T, "n")})
	}
	g = g.deeper()
	switch rapid.IntRange(0, 10).Draw(g.T, "expr") {
	case 0:
		return g.column()
	case 1:
		return g.literal()
	case 2:
		return &Unary{Op: pick(g, "NOT", "-", "+"), X: g.expr()}
	case 3:
		return &Between{Not: g.chance(), X: g.expr(), Lo: g.expr(), Hi: g.expr()}
	case 4:
		return &In{Not: g.chance(), X: g.expr(), List: g.exprs()}
	case 5:
		return &IsNull{Not: g.chance(), X: g.expr()}
	case 6:
		return &Case{X: g.maybeExpr(), Whens: many(g, 1, func() *When { return &When{Cond: g.expr(), Then: g.expr()} }), Else: g.maybeExpr()}
	case 7:
		if g.chance() {
			return g.read()
		}
		return &Cast{X: g.expr(), Type: g.ident()}
	case 8:
		c := &Call{Name: pick(g, &Ident{Name: "count"}, &Ident{Name: "filter"}, &Ident{Name: "interval"}, &Ident{Name: "cast", Quoted: true}), Filter: g.maybeExpr()}
		if c.Star = g.chance(); !c.Star {
			c.Args = many(g, 0, func() *Arg { return &Arg{Name: maybe(g, g.ident), X: g.expr()} })
			c.Distinct = len(c.Args) > 0 && g.chance()
		}
		c.Within = maybe(g, func() *OrderItem { return &OrderItem{X: g.expr(), Desc: g.chance()} })
		return c
	}
	var ops []string
	for op := range binaryPrec {
		ops = append(ops, op)
	}
	return &Binary{Op: rapid.SampledFrom(sorted(ops)).Draw(g.T, "op"), X: g.expr(), Y: g.expr()}
}

func (g gen) read() *Read {
	m := &Read{X: g.column(), Add: rapid.Int64().Draw(g.T, "bytes"), Type: g.str(), Member: maybe(g, g.str)}
	if g.chance() && g.depth > 0 {
		m.X = g.deeper().read()
	}
	if g.chance() {
		m.Path = append(m.Path, &Ident{Name: "[3][0]"})
	}
	for range rapid.IntRange(0, 2).Draw(g.T, "fields") {
		part := g.ident()
		if !part.Quoted && g.chance() {
			part.Name += "[1]"
		}
		m.Path = append(m.Path, part)
	}
	return m
}

func (g gen) column() *ColumnRef {
	c := &ColumnRef{Parts: many(g, 1, g.ident)}
	if g.chance() { // after a dot nothing is reserved
		c.Parts = append(c.Parts, &Ident{Name: pick(g, "end", "from", "FOR")})
	}
	return c
}

func (g gen) ident() *Ident {
	return pick(g,
		&Ident{Name: "a"}, &Ident{Name: "function_name"}, &Ident{Name: "count"}, &Ident{Name: "interval"}, &Ident{Name: "sample"},
		&Ident{Name: "offset"}, &Ident{Name: "filter"}, &Ident{Name: "cast"}, &Ident{Name: "größe"}, &Ident{Name: "access$100"},
		&Ident{Name: "select", Quoted: true}, &Ident{Name: `a "b" c`, Quoted: true}, &Ident{Name: "sys.queries", Quoted: true},
		&Ident{Name: "--", Quoted: true})
}

// stream is a name that may have dots.
func (g gen) stream() *Ident {
	return pick(g, g.ident(), &Ident{Name: "sys.queries"}, &Ident{Name: "sys.for"})
}

func (g gen) integer() *Literal { return pick(g, lit("0"), lit("10"), lit("0x7fff")) }

func (g gen) duration() *Literal {
	return pick(g, lit("100ms"), lit("1min"), lit("1.5s"), lit("2H"), &Literal{Kind: LitDuration, Text: "INTERVAL '3' SECOND", Int: 3e9},
		&Literal{Kind: LitDuration, Text: "INTERVAL 2.5 SECONDS", Int: 25e8},
		&Literal{Kind: LitDuration, Text: "INTERVAL '1 minute 3 s'", Int: 63e9})
}

func (g gen) str() *Literal {
	s := rapid.SampledFrom([]string{"", "x", "it's", "a\nb", "-- no comment", `"`, "größe; END"}).Draw(g.T, "string")
	return &Literal{Kind: LitString, Text: quoteString(s), Str: s}
}

func (g gen) literal() *Literal {
	return pick(g, g.str(), g.integer(), g.duration(), lit("1.5"), lit(".5e3"), lit("70%"), lit("64KiB"),
		&Literal{Kind: LitNull, Text: "NULL"}, &Literal{Kind: LitBool, Text: "TRUE", Int: 1}, &Literal{Kind: LitBool, Text: "FALSE"})
}

func lit(s string) *Literal {
	l, err := number(s)
	if err != nil {
		panic(err)
	}
	return l
}

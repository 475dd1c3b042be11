package parser

import (
	"strconv"
	"strings"
)

// Canonical text: keywords in upper case, one space between words, aliases after AS,
// parentheses only where precedence requires them, CAST(x AS t) for both spellings of a
// cast, != as <>. Parsing the text yields the same tree except for positions.

// printer accumulates the text of a tree.
type printer struct{ strings.Builder }

func text(write func(p *printer)) string {
	var p printer
	write(&p)
	return p.String()
}

func (p *printer) put(parts ...string) {
	for _, s := range parts {
		p.WriteString(s)
	}
}

// list writes n things with a separator between them.
func (p *printer) list(n int, sep string, write func(i int)) {
	for i := range n {
		if i > 0 {
			p.WriteString(sep)
		}
		write(i)
	}
}

// String prints the query in canonical form.
func (q *Query) String() string { return text(func(p *printer) { p.query(q) }) }

// String prints the statement in canonical form.
func (s *Explain) String() string {
	return text(func(p *printer) {
		p.put("EXPLAIN ")
		if s.Analyze {
			p.put("ANALYZE ")
		}
		if q, ok := s.Of.(*Query); ok {
			p.query(q)
			return
		}
		p.put(s.Of.String())
	})
}

// String prints the statement in canonical form.
func (s *CreateStream) String() string {
	return text(func(p *printer) {
		p.create("STREAM", s.Replace, s.Name)
		p.as(s.Query)
	})
}

// String prints the statement in canonical form.
func (s *CreateModel) String() string {
	return text(func(p *printer) {
		p.create("MODEL", s.Replace, s.Name)
		p.as(s.Query)
	})
}

// String prints the statement in canonical form.
func (s *CreateExport) String() string {
	return text(func(p *printer) {
		p.create("EXPORT", s.Replace, s.Name)
		p.put(" TO ")
		if s.To != nil {
			p.literal(s.To)
		} else {
			p.put("PROMETHEUS")
		}
		if len(s.Options) > 0 {
			p.put(" WITH (")
			p.list(len(s.Options), ", ", func(i int) { p.option(s.Options[i]) })
			p.put(")")
		}
		p.as(s.Query)
	})
}

// String prints the statement in canonical form.
func (s *CreateQuery) String() string {
	return text(func(p *printer) {
		p.create("QUERY", false, s.Name)
		p.put(" ON FLEET")
		p.as(s.Query)
	})
}

// String prints the statement in canonical form.
func (s *CreateContext) String() string {
	return text(func(p *printer) {
		p.create("CONTEXT", s.Replace, s.Name)
		p.put(" AS BEGIN ")
		p.edge(s.Begin)
		p.put(" KEY ")
		p.expr(s.Key, precLowest)
		if s.End != nil {
			p.put(" END ")
			p.edge(s.End)
		}
	})
}

// String prints where a context begins or ends.
func (e *Edge) String() string { return text(func(p *printer) { p.edge(e) }) }

func (p *printer) edge(e *Edge) {
	p.ident(e.Stream)
	p.put(" WHERE ")
	p.expr(e.Where, precLowest)
}

// String prints the option in canonical form.
func (o *Option) String() string { return text(func(p *printer) { p.option(o) }) }

func (p *printer) option(o *Option) {
	p.ident(o.Name)
	p.put(" => ")
	p.expr(o.X, precLowest)
}

func (p *printer) create(kind string, replace bool, name *Ident) {
	p.put("CREATE ")
	if replace {
		p.put("OR REPLACE ")
	}
	p.put(kind, " ")
	p.ident(name)
}

func (p *printer) as(q *Query) {
	p.put(" AS ")
	p.query(q)
}

// String prints the statement in canonical form.
func (s *CreateTrigger) String() string {
	return text(func(p *printer) {
		p.put("CREATE ")
		if s.Replace {
			p.put("OR REPLACE ")
		}
		if s.Once {
			p.put("ONCE ")
		}
		p.put("TRIGGER ")
		p.ident(s.Name)
		p.put(" ON ")
		p.from(s.From)
		p.put(" WHEN ")
		p.expr(s.When, precLowest)
		p.put(" BEGIN ")
		p.list(len(s.Actions), "; ", func(i int) { p.put(s.Actions[i].String()) })
		p.put(" END")
	})
}

// String prints the statement in canonical form.
func (s *Drop) String() string {
	return text(func(p *printer) {
		p.put("DROP ", s.Kind, " ")
		if s.IfExists {
			p.put("IF EXISTS ")
		}
		p.ident(s.Name)
	})
}

// String prints the statement in canonical form.
func (s *Insert) String() string {
	return text(func(p *printer) { p.put("INSERT INTO file(", s.Path.String(), ") "); p.query(s.Query) })
}

// String prints the statement in canonical form.
func (s *Use) String() string {
	switch {
	case s.PID != nil:
		return "USE PID " + s.PID.String()
	case s.In != nil:
		return "USE CONTAINER " + s.In.String()
	case s.Name != nil:
		return "USE " + s.Name.String()
	}
	return "USE NONE"
}

// String prints the statement in canonical form.
func (s *Stop) String() string { return "STOP " + s.ID.String() }

// String prints the statement in canonical form.
func (s *Suspend) String() string { return "SUSPEND" + optional(" THREAD ", s.Thread) }

// String prints the statement in canonical form.
func (s *Resume) String() string { return "RESUME" + optional(" THREAD ", s.Thread) }

// String prints the statement in canonical form.
func (s *Set) String() string { return "SET " + s.Key.String() + " = " + s.Value.String() }

// String prints the statement in canonical form.
func (s *Show) String() string { return "SHOW " + s.What + optional(" LIKE ", s.Like) }

// String prints the statement in canonical form.
func (s *Describe) String() string {
	return text(func(p *printer) {
		p.put("DESCRIBE ")
		if s.Function {
			p.put("FUNCTION ")
		}
		p.ident(s.Name)
	})
}

// String prints the action in canonical form.
func (a *ActSample) String() string {
	return text(func(p *printer) {
		p.put("SAMPLE(")
		p.ident(a.Stream)
		p.put(", ", a.Every.String(), ")", optional(" FOR ", a.For))
	})
}

// String prints the action in canonical form.
func (a *ActMonitor) String() string {
	return text(func(p *printer) {
		p.put("MONITOR ")
		p.ident(a.Stream)
		p.where(" WHERE ", a.Where)
		p.put(optional(" FOR ", a.For))
	})
}

// String prints the action in canonical form.
func (a *ActRecall) String() string {
	return text(func(p *printer) {
		p.put("RECALL ")
		if a.Every != nil {
			p.put("SAMPLE(")
		}
		p.ident(a.Stream)
		if a.Every != nil {
			p.put(", ", a.Every.String(), ")")
		}
		p.where(" WHERE ", a.Where)
		p.put(" LAST ", a.Last.String())
		p.put(optional(" WITHIN OVERHEAD ", a.Overhead))
	})
}

// String prints the action in canonical form.
func (a *ActStop) String() string {
	return text(func(p *printer) { p.put("STOP "); p.ident(a.Stream) })
}

// String prints the action in canonical form.
func (a *ActNotify) String() string { return "NOTIFY " + a.Text.String() }

// String prints the action in canonical form.
func (a *ActWebhook) String() string { return "WEBHOOK " + a.URL.String() }

// optional formats a clause of one literal, or "".
func optional(before string, l *Literal) string {
	if l == nil {
		return ""
	}
	return before + l.String()
}

// where writes a clause of one expression, or nothing.
func (p *printer) where(before string, x Expr) {
	if x != nil {
		p.put(before)
		p.expr(x, precLowest)
	}
}

func (p *printer) query(q *Query) {
	if len(q.With) > 0 {
		p.put("WITH ")
		p.list(len(q.With), ", ", func(i int) {
			p.ident(q.With[i].Name)
			p.put(" AS (")
			p.query(q.With[i].Query)
			p.put(")")
		})
		p.put(" ")
	}
	p.list(len(q.Selects), " UNION ALL ", func(i int) { p.selectFrom(q.Selects[i]) })
	if len(q.OrderBy) > 0 {
		p.put(" ORDER BY ")
		p.list(len(q.OrderBy), ", ", func(i int) { p.orderItem(q.OrderBy[i]) })
	}
	p.put(optional(" LIMIT ", q.Limit), optional(" OFFSET ", q.Offset))
	if q.Emit != nil {
		p.put(" EMIT ", q.Emit.Mode, optional(" ", q.Emit.Every))
	}
	p.put(optional(" FOR ", q.For))
	if q.Precision != nil {
		p.put(" ", q.Precision.String())
	}
	p.put(optional(" WITHIN OVERHEAD ", q.Overhead))
}

// String prints ERROR WITHIN 5% AT CONFIDENCE 95%.
func (e *Precision) String() string {
	return "ERROR WITHIN " + e.Error.String() + optional(" AT CONFIDENCE ", e.Confidence)
}

func (p *printer) orderItem(o *OrderItem) {
	p.expr(o.X, precLowest)
	if o.Desc {
		p.put(" DESC")
	}
}

// String prints the SELECT with its clauses in canonical form.
func (s *Select) String() string { return text(func(p *printer) { p.selectFrom(s) }) }

func (p *printer) selectFrom(s *Select) {
	p.put("SELECT")
	if s.Distinct {
		p.put(" DISTINCT")
	}
	for i, item := range s.Items {
		if i > 0 {
			p.put(",")
		}
		p.put(" ")
		p.selectItem(item)
	}
	if s.From != nil {
		p.put(" FROM ")
		p.from(s.From)
	}
	p.where(" WHERE ", s.Where)
	if len(s.GroupBy) > 0 {
		p.put(" GROUP BY ")
		p.exprs(s.GroupBy)
	}
	p.where(" HAVING ", s.Having)
}

// String prints the item in canonical form.
func (i *SelectItem) String() string { return text(func(p *printer) { p.selectItem(i) }) }

func (p *printer) selectItem(i *SelectItem) {
	switch {
	case i.Star && i.Qualifier != nil:
		p.ident(i.Qualifier)
		p.put(".*")
	case i.Star:
		p.put("*")
	default:
		p.expr(i.X, precLowest)
		p.alias(i.Alias)
	}
}

func (p *printer) alias(a *Ident) {
	if a != nil {
		p.put(" AS ")
		p.ident(a)
	}
}

// String prints the sources in canonical form.
func (f *From) String() string { return text(func(p *printer) { p.from(f) }) }

func (p *printer) from(f *From) {
	p.source(f.First)
	for _, j := range f.Joins {
		p.put(" ", j.Kind.String(), " ")
		p.source(j.Right)
		p.put(optional(" WINDOW ", j.Within))
		if j.FollowedBy != nil {
			p.put(" ")
			p.ident(j.FollowedBy.First)
			p.put(" FOLLOWED BY ")
			p.ident(j.FollowedBy.Second)
		}
		p.where(" ON ", j.On)
	}
}

// String returns the join's keywords: "WINDOW JOIN".
func (k JoinKind) String() string {
	return [...]string{JoinPlain: "JOIN", JoinWindow: "WINDOW JOIN", JoinLeftWindow: "LEFT WINDOW JOIN", JoinAsOf: "ASOF JOIN"}[k]
}

// String prints the source in canonical form.
func (s *Source) String() string { return text(func(p *printer) { p.source(s) }) }

func (p *printer) source(s *Source) {
	switch s.Kind {
	case SourceStream:
		p.ident(s.Name)
	case SourceQuery:
		p.put("(")
		p.query(s.Query)
		p.put(")")
	default:
		p.put(sourceName[s.Kind], "(")
		switch {
		case s.Src != nil:
			p.source(s.Src)
		case s.Name != nil:
			p.ident(s.Name)
		}
		for i, a := range s.Args {
			if i > 0 || s.Src != nil || s.Name != nil {
				p.put(", ")
			}
			p.literal(a)
		}
		if len(s.By) > 0 {
			p.put(" PARTITION BY ")
			p.exprs(s.By)
		}
		p.put(")")
	}
	p.alias(s.Alias)
}

// sourceName holds the keywords of the sources that have arguments.
var sourceName = map[SourceKind]string{
	SourceSample: "SAMPLE", SourceTumble: "TUMBLE", SourceHop: "HOP", SourceSession: "SESSION",
	SourceConsistent: "CONSISTENT", SourceFile: "file", SourceSeries: "series",
}

// String prints the name, in double quotes if necessary.
func (i *Ident) String() string { return text(func(p *printer) { p.ident(i) }) }

// ident writes a name. The dots of a stream's name (sys.queries) are part of it; any other
// dot is written in quotes.
func (p *printer) ident(i *Ident) {
	if i.Quoted {
		p.quoted(i.Name)
		return
	}
	for j, part := range strings.Split(i.Name, ".") {
		if !isWord(part) || j == 0 && reserved[strings.ToUpper(part)] {
			p.quoted(i.Name)
			return
		}
	}
	p.put(i.Name)
}

func (p *printer) quoted(name string) {
	p.put(`"`, strings.ReplaceAll(name, `"`, `""`), `"`)
}

// String prints the literal as it was written, or from its value if it was not parsed.
func (l *Literal) String() string {
	if l.Text != "" {
		return l.Text
	}
	switch l.Kind {
	case LitNull:
		return "NULL"
	case LitBool:
		return strings.ToUpper(strconv.FormatBool(l.Int != 0))
	case LitInt:
		return strconv.FormatInt(l.Int, 10)
	case LitUnsigned:
		return strconv.FormatUint(uint64(l.Int), 10)
	case LitFloat:
		return strconv.FormatFloat(l.F, 'g', -1, 64)
	case LitPercent:
		return strconv.FormatFloat(l.F, 'f', -1, 64) + "%"
	case LitDuration:
		return inUnits(l.Int, durationUnits)
	case LitSize:
		return inUnits(l.Int, sizeUnits)
	}
	return quoteString(l.Str)
}

func (p *printer) literal(l *Literal) { p.put(l.String()) }

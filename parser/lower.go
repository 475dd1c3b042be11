package parser

import (
	"slices"
	"strings"
)

// lowering converts the result of the grammar to the syntax tree. It keeps the first error
// that the grammar cannot detect.
type lowering struct {
	tokens []token
	err    *Error
}

func (l *lowering) fail(pos Span, msg, hint string) {
	if l.err == nil {
		l.err = &Error{Msg: msg, Hint: hint, Pos: pos}
	}
}

// span returns the text range of a production.
func (l *lowering) span(a at) Span {
	if a.EndPos.Column == 0 {
		return Span{a.Pos.Offset, a.Pos.Offset}
	}
	return Span{a.Pos.Offset, l.tokens[a.EndPos.Column-1].Stop}
}

func (l *lowering) statement(s *statementRule) Statement {
	switch {
	case s.Query != nil:
		return l.query(s.Query)
	case s.Explain != nil:
		return l.explain(s.Explain)
	case s.Create != nil:
		return l.create(s.Create)
	case s.Drop != nil:
		return &Drop{Span: l.span(s.Drop.at), Kind: strings.ToUpper(s.Drop.Kind), IfExists: s.Drop.Name.ifExists, Name: s.Drop.Name.name}
	case s.Insert != nil:
		return l.insert(s.Insert)
	case s.Use != nil:
		return &Use{Span: l.span(s.Use.at), PID: s.Use.PID.get(), Name: s.Use.Name.get(), In: s.Use.In.get(), None: s.Use.None}
	case s.Stop != nil:
		return &Stop{Span: l.span(s.Stop.at), ID: s.Stop.ID.Literal}
	case s.Suspend != nil:
		return &Suspend{Span: l.span(s.Suspend.at), Thread: s.Suspend.Thread.get()}
	case s.Resume != nil:
		return &Resume{Span: l.span(s.Resume.at), Thread: s.Resume.Thread.get()}
	case s.Set != nil:
		return &Set{Span: l.span(s.Set.at), Key: s.Set.Key.Ident, Value: s.Set.Value.Literal}
	case s.Show != nil:
		return &Show{Span: l.span(s.Show.at), What: strings.ToUpper(s.Show.What), Like: s.Show.Like.get()}
	}
	d := s.Describe
	return &Describe{Span: l.span(d.at), Function: d.Subject.function, Name: d.Subject.name}
}

// An absent leaf yields nil.

func (l *wholeLeaf) get() *Literal {
	if l == nil {
		return nil
	}
	return l.Literal
}

func (l *durationLeaf) get() *Literal {
	if l == nil {
		return nil
	}
	return l.Literal
}

func (l *percentLeaf) get() *Literal {
	if l == nil {
		return nil
	}
	return l.Literal
}

func (l *stringLeaf) get() *Literal {
	if l == nil {
		return nil
	}
	return l.Literal
}

func (l *exprLeaf) get() Expr {
	if l == nil {
		return nil
	}
	return l.Expr
}

func exprList(leaves []*exprLeaf) []Expr {
	var list []Expr
	for _, e := range leaves {
		list = append(list, e.Expr)
	}
	return list
}

func aliasOf(as *wordLeaf, bare *bareLeaf) *Ident {
	switch {
	case as != nil:
		return as.Ident
	case bare != nil:
		return bare.Ident
	}
	return nil
}

func (l *lowering) query(q *queryRule) *Query {
	out := &Query{Span: l.span(q.at), Limit: q.Limit.get(), Offset: q.Offset.get(), For: q.For.get(), Overhead: q.Within.get()}
	if e := q.Error; e != nil {
		out.Precision = &Precision{Span: l.span(e.at), Error: e.Within.Literal, Confidence: e.Confidence.get()}
	}
	for _, c := range q.With {
		out.With = append(out.With, &CTE{Span: l.span(c.at), Name: c.Name.Ident, Query: l.query(c.Query)})
	}
	for _, s := range q.Selects {
		out.Selects = append(out.Selects, l.selectFrom(s))
	}
	for _, o := range q.OrderBy {
		out.OrderBy = append(out.OrderBy, &OrderItem{Span: l.span(o.at), X: o.X.Expr, Desc: o.Desc})
	}
	if e := q.Emit; e != nil {
		out.Emit = &Emit{Span: l.span(e.at), Mode: strings.ToUpper(e.Mode), Every: e.Every.get()}
		if e.Every != nil {
			out.Emit.Mode = "EVERY"
		}
	}
	return out
}

func (l *lowering) selectFrom(s *selectRule) *Select {
	out := &Select{
		Span: l.span(s.at), Distinct: s.Distinct,
		Where: s.Where.get(), GroupBy: exprList(s.GroupBy), Having: s.Having.get(),
	}
	switch {
	case s.From != nil:
		out.From = l.from(s.From)
	case s.Of != nil:
		out.From = l.from(s.Of)
	}
	for _, i := range s.Items {
		item := i.Item.SelectItem
		item.Span, item.Alias = l.span(i.at), aliasOf(i.Alias, i.Bare)
		if item.Star && item.Alias != nil {
			l.fail(item.Alias.Pos(), "* stands for all columns and takes no alias", "name the columns")
		}
		out.Items = append(out.Items, &item)
	}
	if out.From == nil && (out.Where != nil && namesColumn(out.Where) ||
		slices.ContainsFunc(out.Items, func(i *SelectItem) bool { return i.Star || namesColumn(i.X) })) {
		l.failFrom(s.Items[len(s.Items)-1].EndPos.Column)
	}
	return out
}

// namesColumn reports whether an expression reads a column, so that its SELECT needs FROM.
func namesColumn(e Expr) bool {
	if _, ok := e.(*ColumnRef); ok {
		return true
	}
	return slices.ContainsFunc(Children(e), namesColumn)
}

// failFrom refuses a SELECT that needs FROM before the token with this index.
func (l *lowering) failFrom(at int) {
	d := &diagnosis{tokens: l.tokens, at: min(at, len(l.tokens))}
	e := d.noFrom()
	l.fail(e.Pos, e.Msg, e.Hint)
}

func (l *lowering) from(f *fromRule) *From {
	out := &From{Span: l.span(f.at), First: l.source(f.First)}
	for _, j := range f.Joins {
		join := &Join{Span: l.span(j.at)}
		if w := j.Window; w != nil {
			join.Kind = JoinWindow
			if w.Left {
				join.Kind = JoinLeftWindow
			}
			join.Right, join.Within, join.On = l.source(w.Right), w.Within.Literal, w.On.get()
			if w.FollowedBy != nil {
				join.FollowedBy = w.FollowedBy.FollowedBy
			}
		} else {
			join.Kind = JoinPlain
			if j.Plain.AsOf {
				join.Kind = JoinAsOf
			}
			join.Right, join.On = l.source(j.Plain.Right), j.Plain.On.get()
		}
		out.Joins = append(out.Joins, join)
	}
	return out
}

func (l *lowering) explain(e *explainRule) Statement {
	out := &Explain{Span: l.span(e.at), Analyze: e.Analyze}
	if e.Query != nil {
		out.Of = l.query(e.Query)
		return out
	}
	out.Of = l.create(e.Create)
	span := l.span(e.Create.at)
	switch of := out.Of.(type) {
	case *CreateContext:
		l.fail(span, "CREATE CONTEXT has no plan to explain", "EXPLAIN a query that selects the context")
	case *CreateStream:
		l.fail(span, "CREATE STREAM has no plan to explain", "EXPLAIN "+of.Query.String())
	case *CreateQuery:
		l.fail(span, "CREATE QUERY has no plan of its own to explain", "EXPLAIN "+of.Query.String())
	case *CreateModel:
		if e.Analyze {
			l.fail(span, "EXPLAIN ANALYZE runs only queries", "EXPLAIN ANALYZE "+of.Query.String())
		}
	case *CreateTrigger:
		if e.Analyze {
			l.fail(span, "EXPLAIN ANALYZE runs only queries", "EXPLAIN CREATE TRIGGER shows what would be done; SHOW TRIGGERS counts what was done")
		}
	case *CreateExport:
		if e.Analyze {
			l.fail(span, "EXPLAIN ANALYZE runs only queries", "EXPLAIN ANALYZE "+of.Query.String())
		}
	}
	return out
}

func (l *lowering) create(c *createRule) Statement {
	span := l.span(c.at)
	if v := c.View; v != nil {
		query := l.query(v.Query)
		if strings.EqualFold(v.Kind, "MODEL") {
			return &CreateModel{Span: span, Replace: c.Replace, Name: v.Name.Ident, Query: query}
		}
		return &CreateStream{Span: span, Replace: c.Replace, Name: v.Name.Ident, Query: query}
	}
	if q := c.Query; q != nil {
		if c.Replace {
			l.fail(q.Name.Pos(), "a standing query cannot be replaced", "DROP QUERY "+q.Name.Ident.String()+", and CREATE QUERY")
		}
		return &CreateQuery{Span: span, Name: q.Name.Ident, Query: l.query(q.Query)}
	}
	if e := c.Export; e != nil {
		out := &CreateExport{Span: span, Replace: c.Replace, Name: e.Name.Ident, To: e.Address.get(), Query: l.query(e.Query)}
		for _, o := range e.Options {
			out.Options = append(out.Options, &Option{Span: l.span(o.at), Name: o.Name.Ident, X: o.X.Expr})
		}
		return out
	}
	if x := c.Context; x != nil {
		return &CreateContext{Span: span, Replace: c.Replace, Name: x.Name.Ident, Begin: l.edge(x.Begin), Key: x.Key.Expr, End: l.edge(x.End)}
	}
	t := c.Trigger
	out := &CreateTrigger{Span: span, Replace: c.Replace, Once: t.Once, Name: t.Name.Ident, From: l.from(t.From), When: t.When.Expr}
	for _, a := range t.Actions {
		out.Actions = append(out.Actions, l.action(a))
	}
	if len(out.Actions) == 0 {
		l.fail(Span{span.Stop - len("END"), span.Stop}, "the trigger has no action", "BEGIN NOTIFY 'text' END")
	}
	return out
}

func (l *lowering) edge(e *edgeRule) *Edge {
	if e == nil {
		return nil
	}
	return &Edge{Span: l.span(e.at), Stream: e.Stream.Ident, Where: e.Where.Expr}
}

func (l *lowering) action(a *actionRule) Action {
	span := l.span(a.at)
	switch {
	case a.Sample != nil:
		return &ActSample{Span: span, Stream: a.Sample.Stream.Ident, Every: a.Sample.Every.Literal, For: a.Sample.For.get()}
	case a.Monitor != nil:
		return &ActMonitor{Span: span, Stream: a.Monitor.Stream.Ident, Where: a.Monitor.Where.get(), For: a.Monitor.For.get()}
	case a.Recall != nil:
		r := a.Recall
		out := &ActRecall{Span: span, Every: r.Every.get(), Where: r.Where.get(), Last: r.Last.Literal, Overhead: r.Within.get()}
		if r.Plain != nil {
			out.Stream = r.Plain.Ident
		} else {
			out.Stream = r.Stream.Ident
		}
		return out
	case a.Stop != nil:
		return &ActStop{Span: span, Stream: a.Stop.Ident}
	case a.Notify != nil:
		return &ActNotify{Span: span, Text: a.Notify.Literal}
	case a.Webhook != nil:
		return &ActWebhook{Span: span, URL: a.Webhook.Literal}
	case a.Insert != nil:
		return l.insert(a.Insert)
	}
	return l.query(a.Query)
}

func (l *lowering) insert(i *insertRule) *Insert {
	return &Insert{Span: l.span(i.at), Path: i.Path.Literal, Query: l.query(i.Query)}
}

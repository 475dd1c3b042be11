package fleet

import (
	"regexp"
	"slices"
	"strings"

	"endoscope/parser"
)

// checkSources refuses what would be computed by each host from its own rows alone
// where the statement means those of all: sub-queries that aggregate, that drop
// equal rows, or that take some of them.
func (w *splitter) checkSources() error {
	sources := []*parser.Source{w.sel.From.First}
	for _, j := range w.sel.From.Joins {
		sources = append(sources, j.Right)
	}
	for _, c := range w.q.With {
		if err := w.checkQuery(c.Query); err != nil {
			return err
		}
	}
	for _, s := range sources {
		if err := w.checkSource(s); err != nil {
			return err
		}
	}
	return nil
}

func (w *splitter) checkSource(s *parser.Source) error {
	for ; s != nil; s = s.Src {
		if s.Query != nil {
			return w.checkQuery(s.Query)
		}
	}
	return nil
}

func (w *splitter) checkQuery(q *parser.Query) error {
	if q.Limit != nil {
		return w.refuse(q, perHostHint, "a LIMIT inside a query over several hosts would be each host's own")
	}
	for _, sel := range q.Selects {
		aggregated := len(sel.GroupBy) > 0 || sel.Having != nil ||
			slices.ContainsFunc(sel.Items, func(i *parser.SelectItem) bool { return i.X != nil && hasAggregate(i.X) })
		if aggregated || sel.Distinct {
			return w.refuse(sel, perHostHint, "groups inside a query over several hosts would be each host's own")
		}
		inner := &splitter{q: q, src: w.src, sel: sel}
		if err := inner.checkSources(); err != nil {
			return err
		}
	}
	return nil
}

// nested splits a query over one that hosts cannot compute alone: over groups, different
// rows, or some of the rows of all. They compute the first stage of the inner query; its
// second one stands in its place in what is computed here. done is false if the query is
// not of that form, or needs more than that: checkSources says of what.
func (w *splitter) nested() (sp *split, done bool, err error) {
	if len(w.sel.From.Joins) > 0 || w.namesHost() {
		return nil, false, nil
	}
	s := w.sel.From.First
	q, place, alias := s.Query, parser.Span{}, ""
	switch {
	case s.Kind == parser.SourceQuery:
		place = q.Span
	case s.Kind == parser.SourceStream && s.Name != nil:
		for _, c := range w.q.With {
			if c.Name.Name == s.Name.Name {
				q, place = c.Query, s.Name.Span
			}
		}
		if s.Alias == nil {
			alias = " AS " + w.text(s.Name)
		}
	}
	if q == nil || w.checkQuery(q) == nil {
		return nil, false, nil
	}
	for _, c := range w.q.With {
		if c.Query != q && w.checkQuery(c.Query) != nil {
			return nil, false, nil
		}
	}
	inner := &splitter{q: q, src: w.src, inner: true, with: w.with, until: w.until}
	end, ok := w.end()
	if !ok || !inner.replaceable() || len(w.q.With) > 0 && len(q.With) > 0 {
		return nil, false, nil
	}
	if w.q.Emit != nil && w.q.Emit.Mode != "FINAL" {
		return nil, false, w.refuse(w.q.Emit, "leave EMIT out", "what is computed of groups of several hosts comes once")
	}
	if x, found := w.byArrival(); found {
		return nil, false, w.refuse(x, "MIN or MAX of a column says which", "groups of several hosts have no first and no last one")
	}
	if len(w.q.With) > 0 {
		inner.with += w.src[w.q.Start:w.sel.Start]
	}
	if w.q.For != nil {
		inner.until = " FOR " + w.q.For.Text
	}
	if sp, err = inner.split(); err != nil {
		return nil, false, err
	}
	m := sp.merge
	plain := !w.aggregated() && !w.sel.Distinct && w.q.Limit == nil && len(w.q.OrderBy) == 0
	switch {
	case m.again == once, plain:
	case m.again == byWindow && m.arrange == nil && len(q.OrderBy) == 0 && q.Limit == nil:
		m.again = once // the groups of all windows, in the end
	default:
		return nil, false, w.refuse(q, "leave ORDER BY, LIMIT and SESSION to the outer query, or to one of its own", "the results of windows of several hosts are not computed with any more")
	}
	before, after := w.src[w.sel.Start:place.Start], w.src[place.Stop:end]
	if s.Kind != parser.SourceQuery {
		before, after = before+"(", ")"+alias+after
	}
	m.before, m.after = before+m.before, m.after+after
	if m.arrange == nil {
		m.query = before + m.query + after
	}
	return sp, true, nil
}

// replaceable reports whether an inner query's second stage can stand in its place: it
// has one SELECT, nothing of it is one host's own, and its names are not those that the
// first stage gives.
func (w *splitter) replaceable() bool {
	if len(w.q.Selects) != 1 || len(w.q.Selects[0].Items) == 0 || w.q.Emit != nil {
		return false
	}
	w.sel = w.q.Selects[0]
	if _, own := w.oneHosts(); own || w.namesHost() || slices.ContainsFunc(w.sel.GroupBy, isHost) {
		return false
	}
	return !slices.ContainsFunc(w.sel.Items, func(i *parser.SelectItem) bool {
		return i.Alias != nil && firstStageName.MatchString(i.Alias.Name)
	})
}

var firstStageName = regexp.MustCompile(`^([kc][0-9]+|ws|we)$`)

// byArrival is an aggregate that goes by the order of rows.
func (w *splitter) byArrival() (parser.Expr, bool) {
	ordered := func(e parser.Expr) bool {
		c, ok := e.(*parser.Call)
		return ok && (strings.EqualFold(c.Name.Name, "first") || strings.EqualFold(c.Name.Name, "last"))
	}
	for _, i := range w.sel.Items {
		if i.X != nil {
			if x, found := find(i.X, ordered); found {
				return x, true
			}
		}
	}
	return nil, false
}

// end is where the query ends without EMIT and FOR, which are the last clauses.
func (w *splitter) end() (at int, ok bool) {
	at, ok = w.stop(), true
	cut := func(n parser.Node, keyword string) {
		before := strings.TrimRight(w.src[:n.Pos().Start], " \t\r\n")
		ok = ok && len(before) >= len(keyword) && strings.EqualFold(before[len(before)-len(keyword):], keyword)
		at = len(before) - len(keyword)
	}
	if w.q.For != nil {
		cut(w.q.For, "FOR")
	}
	if w.q.Emit != nil {
		cut(w.q.Emit, "EMIT")
	}
	return at, ok
}

package fleet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"endoscope/parser"
)

// split is a statement as it is executed by several hosts.
type split struct {
	each  string // what every host executes
	host  int    // where the column host is in the result; < 0: it has none
	limit int64  // rows of all hosts; 0: any number
	merge *merge // how their rows become the result; nil: they are it
	// ordered: rows are in order of their times, as far as the clocks allow it.
	ordered bool
	own     bool              // each host's groups are its own
	ahead   bool              // rows need the column aheadColumn
	notices []string          // for the user
	silent  map[*member]error // hosts that did not answer when they were asked about it
}

// merge is the second stage of an aggregate: a query over the hosts' rows.
type merge struct {
	src    string // the whole statement
	query  string
	byType []choice
	// What stands around the query, where that is not the whole statement.
	before, after string

	arrange *arranged // it is made when the columns are known
	again   again     // how often there is a result
	borders int       // column of the borders of windows
	limit   int64     // of all results; 0: none
	gap     int64     // of sessions, ns
	// How many columns of what the hosts give are of what, where that matters.
	keys, parts, uniques, width int
}

// choice is a part of a query that depends on the type of a column.
type choice struct {
	mark, column    string
	duration, other string
}

// secondSource is the name of what the second stage reads: the file of that name is
// what the hosts give.
const secondSource = "hosts.csv"

// hostName is the column that says which host a row is of.
const hostName = "host"

// splitQuery splits a query. Its errors are *parser.Error.
func splitQuery(q *parser.Query, src string) (*split, error) {
	return (&splitter{q: q, src: src}).split()
}

func (w *splitter) split() (*split, error) {
	if len(w.q.Selects) == 1 {
		w.sel = w.q.Selects[0]
	}
	if w.sel == nil || !w.aggregated() {
		return w.rows()
	}
	if i := slices.IndexFunc(w.sel.GroupBy, isHost); i >= 0 {
		return w.perHost("")
	}
	if x, ok := w.oneHosts(); ok {
		return w.perHost("groups are of one host each, as " + w.text(x) + " is")
	}
	if sp, done, err := w.nested(); done || err != nil {
		return sp, err
	}
	if err := w.checkSources(); err != nil {
		return nil, err
	}
	return w.stages()
}

type splitter struct {
	q   *parser.Query
	src string
	sel *parser.Select

	again   again
	session *parser.Source // of sessions
	edits   []edit
	inner   bool     // the query stands in another one:
	with    string   // WITH clauses around it
	until   string   // the FOR clause of the whole
	keys    []string // texts of the grouping expressions
	uniques []string // those of COUNT(DISTINCT), by which hosts group, too
	values  []string // texts of the first stage's aggregates
	before  string   // the condition of rows that sessions are made of
	where   string   // that of those that count, where the others matter, too
	ahead   bool     // the second stage reads aheadColumn
	notices []string
	byType  []choice
	seen    map[string]string // of aggregates, by their text: what stands for them
	mark    string            // what choices' marks begin with
}

func (w *splitter) text(n parser.Node) string { return w.src[n.Pos().Start:n.Pos().Stop] }

func (w *splitter) refuse(n parser.Node, hint, format string, args ...any) error {
	return &parser.Error{Msg: fmt.Sprintf(format, args...), Hint: hint, Pos: n.Pos(), Src: w.src}
}

const perHostHint = "GROUP BY host gives each host's own"

// aggregated reports whether rows of several hosts make a row of the result.
func (w *splitter) aggregated() bool {
	if w.sel.GroupBy != nil || w.sel.Having != nil {
		return true
	}
	return slices.ContainsFunc(w.sel.Items, func(i *parser.SelectItem) bool { return i.X != nil && hasAggregate(i.X) })
}

func isHost(e parser.Expr) bool {
	c, ok := e.(*parser.ColumnRef)
	return ok && len(c.Parts) == 1 && strings.EqualFold(c.Parts[0].Name, hostName)
}

// rows splits a query of which every host's rows are the result's.
func (w *splitter) rows() (*split, error) {
	if w.sel != nil {
		if sp, done, err := w.nested(); done || err != nil {
			return sp, err
		}
	}
	for _, sel := range w.q.Selects {
		one := &splitter{q: w.q, src: w.src, sel: sel}
		if w.sel == nil && (one.aggregated() || sel.Distinct) {
			return nil, w.refuse(sel, perHostHint, "groups in a UNION over several hosts would be each host's own")
		}
		if err := one.checkSources(); err != nil {
			return nil, err
		}
	}
	sp := &split{}
	if w.inner {
		sp.host = -1
	}
	if w.q.Limit != nil {
		sp.limit = w.q.Limit.Int
	}
	if w.sel != nil {
		if err := w.withoutHost(sp); err != nil {
			return nil, err
		}
	}
	sp.ordered = len(w.q.OrderBy) == 0 && !slices.ContainsFunc(w.q.Selects, func(s *parser.Select) bool { return windowed(s.From.First) })
	return sp, w.arrange(sp)
}

// perHost splits GROUP BY host, which every host does alone. why is said to who did not
// ask for it.
func (w *splitter) perHost(why string) (*split, error) {
	sp := &split{own: true}
	if w.q.Limit != nil {
		sp.limit = w.q.Limit.Int
	}
	if why != "" {
		sp.notices = append(sp.notices, why)
	}
	if err := w.withoutHost(sp); err != nil {
		return nil, err
	}
	return sp, w.arrange(sp)
}

// withoutHost takes host out of what every host executes, where it stands for
// itself among the columns or in GROUP BY.
func (w *splitter) withoutHost(sp *split) error {
	without := func(n int, at func(int) parser.Node, is func(int) bool, clause string) (first int) {
		first = -1
		var kept []string
		for i := range n {
			if is(i) {
				if first < 0 {
					first = i
				}
				continue
			}
			kept = append(kept, w.text(at(i)))
		}
		if first < 0 {
			return first
		}
		span := parser.Span{Start: at(0).Pos().Start, Stop: at(n - 1).Pos().Stop}
		if len(kept) == 0 { // the clause goes, too
			span.Start = strings.LastIndex(strings.ToUpper(w.src[:span.Start]), clause)
		}
		w.edits = append(w.edits, edit{span, strings.Join(kept, ", ")})
		return first
	}
	items, keys := w.sel.Items, w.sel.GroupBy
	at := without(len(items), func(i int) parser.Node { return items[i] }, func(i int) bool { return items[i].X != nil && isHost(items[i].X) }, "")
	if at >= 0 {
		sp.host = at
		if len(items) == 1 {
			return w.refuse(items[0], "select other columns, too", "host alone says nothing")
		}
	}
	without(len(keys), func(i int) parser.Node { return keys[i] }, func(i int) bool { return isHost(keys[i]) }, "GROUP")
	if slices.ContainsFunc(keys, func(k parser.Expr) bool { l, ok := k.(*parser.Literal); return ok && l.Kind == parser.LitInt }) && at >= 0 {
		return w.refuse(w.sel.GroupBy[0], "say the columns", "with host, the numbers of columns in GROUP BY are ambiguous")
	}
	return nil
}

// stages splits an aggregate in two: what every host computes, and what becomes of
// that here.
func (w *splitter) stages() (*split, error) {
	w.seen, w.mark = map[string]string{}, "{"
	for strings.Contains(w.src, w.mark) { // what users write is no mark
		w.mark += "{"
	}
	if err := w.repeats(); err != nil {
		return nil, err
	}
	for _, k := range w.sel.GroupBy {
		if w.again == bySession {
			if c, ok := k.(*parser.ColumnRef); ok && isBorder(c) {
				continue
			}
		}
		w.keys = append(w.keys, w.key(k))
	}
	var items []string
	for _, i := range w.sel.Items {
		if i.X == nil {
			return nil, w.refuse(i, perHostHint, "* of groups of several hosts is not supported")
		}
		x, err := w.second(i.X)
		if err != nil {
			return nil, err
		}
		if w.inner {
			x += ` AS "` + strings.ReplaceAll(w.name(i), `"`, `""`) + `"`
		}
		items = append(items, x)
	}
	second := "SELECT " + map[bool]string{true: "DISTINCT "}[w.sel.Distinct] + strings.Join(items, ", ") + " FROM file('" + secondSource + "')"
	if by := w.groups("k"); len(by) > 0 {
		second += " GROUP BY " + strings.Join(by, ", ")
	}
	if w.sel.Having != nil {
		x, err := w.second(w.sel.Having)
		if err != nil {
			return nil, err
		}
		second += " HAVING " + x
	}
	second, err := w.tail(second)
	if err != nil {
		return nil, err
	}
	m := &merge{src: w.src, query: second, byType: w.byType, again: w.again,
		keys: len(w.keys), uniques: len(w.uniques), width: len(w.keys) + len(w.values) + len(w.uniques)}
	if w.again == byChange && w.q.Limit != nil {
		m.limit = w.q.Limit.Int
	}
	if w.again == bySession {
		m.gap, m.parts = w.session.Args[0].Int, len(w.session.By)
	}
	return &split{each: w.first(), host: -1, merge: m, ahead: w.ahead, notices: w.notices}, nil
}

// name is that of a column of the result.
func (w *splitter) name(i *parser.SelectItem) string {
	if i.Alias != nil {
		return i.Alias.Name
	}
	if c, ok := i.X.(*parser.ColumnRef); ok {
		return c.Parts[len(c.Parts)-1].Name
	}
	return w.text(i.X)
}

// tail adds ORDER BY and LIMIT to a second stage.
func (w *splitter) tail(second string) (string, error) {
	for i, o := range w.q.OrderBy {
		x, err := w.order(o.X)
		if err != nil {
			return "", err
		}
		second += map[bool]string{true: " ORDER BY ", false: ", "}[i == 0] + x
		if o.Desc {
			second += " DESC"
		}
	}
	if w.q.Limit != nil && w.again != byChange {
		second += " LIMIT " + w.q.Limit.Text
	}
	return second, nil
}

// first is what every host computes: keys and values.
func (w *splitter) first() string {
	cols := w.windowColumns()
	var by []string
	for i, k := range w.keys {
		k = onlyWhere(w.where, k)
		by = append(by, k)
		cols = append(cols, k+" AS k"+strconv.Itoa(i))
	}
	for i, k := range w.partitions() {
		by = append(by, k)
		cols = append(cols, k+" AS "+partitionColumn+strconv.Itoa(i))
	}
	for i, v := range w.values {
		cols = append(cols, v+" AS v"+strconv.Itoa(i))
	}
	for i, x := range w.uniques {
		by = append(by, x)
		cols = append(cols, x+" AS "+uniqueColumn+strconv.Itoa(i))
	}
	var b strings.Builder
	b.WriteString(w.with + w.src[w.q.Start:w.sel.Start]) // WITH
	b.WriteString("SELECT " + strings.Join(cols, ", ") + " FROM " + w.from())
	before := w.before
	if w.sel.Where != nil && w.again != bySession {
		before = w.text(w.sel.Where)
	}
	if before != "" {
		b.WriteString(" WHERE " + before)
	}
	if len(by) > 0 {
		b.WriteString(" GROUP BY " + strings.Join(by, ", "))
	}
	if w.again == byRound || w.again == byChange {
		b.WriteString(" EMIT " + w.text(w.q.Emit))
	}
	if w.q.For != nil {
		b.WriteString(" FOR " + w.q.For.Text)
	}
	return b.String() + w.until
}

// key is the text of a grouping expression, which may be the number or the name of
// a column of the result.
func (w *splitter) key(k parser.Expr) string {
	switch k := k.(type) {
	case *parser.Literal:
		if n := k.Int; k.Kind == parser.LitInt && n >= 1 && n <= int64(len(w.sel.Items)) && w.sel.Items[n-1].X != nil {
			return w.text(w.sel.Items[n-1].X)
		}
	case *parser.ColumnRef:
		for _, i := range w.sel.Items {
			if i.Alias != nil && i.X != nil && len(k.Parts) == 1 && i.Alias.Name == k.Parts[0].Name {
				return w.text(i.X)
			}
		}
	}
	return w.text(k)
}

// order is a key of ORDER BY in the second stage.
func (w *splitter) order(x parser.Expr) (string, error) {
	if l, ok := x.(*parser.Literal); ok {
		return l.Text, nil
	}
	if c, ok := x.(*parser.ColumnRef); ok && len(c.Parts) == 1 {
		for n, i := range w.sel.Items {
			if i.Alias != nil && i.Alias.Name == c.Parts[0].Name {
				return strconv.Itoa(n + 1), nil
			}
		}
	}
	return w.second(x)
}

// second is the text of an expression over groups in the second stage: keys and
// aggregates are columns of the first.
func (w *splitter) second(x parser.Expr) (string, error) {
	if i := slices.Index(w.keys, w.text(x)); i >= 0 {
		return "k" + strconv.Itoa(i), nil
	}
	if c, ok := aggregate(x); ok {
		return w.merged(c)
	}
	if c, ok := x.(*parser.ColumnRef); ok {
		if name, ok := w.border(c); ok {
			return name, nil
		}
		if len(w.sel.GroupBy) == 0 {
			return "", w.refuse(x, "GROUP BY it, too, or aggregate it: LAST("+w.text(c)+")", "%s is neither grouped nor aggregated", w.text(c))
		}
		return w.last(c), nil
	}
	var b strings.Builder
	from := x.Pos().Start
	for _, e := range parser.Children(x) {
		s, err := w.second(e)
		if err != nil {
			return "", err
		}
		b.WriteString(w.src[from:e.Pos().Start] + s)
		from = e.Pos().Stop
	}
	return "(" + b.String() + w.src[from:x.Pos().Stop] + ")", nil
}

// windowed reports whether a source has windows.
func windowed(s *parser.Source) bool {
	switch {
	case s == nil:
		return false
	case s.Kind == parser.SourceTumble, s.Kind == parser.SourceHop, s.Kind == parser.SourceSession:
		return true
	}
	return windowed(s.Src)
}

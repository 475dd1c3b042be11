package fleet

import (
	"slices"
	"strconv"
	"strings"

	"endoscope/parser"
	"endoscope/server/wire"
)

// arranged is a second stage of the hosts' rows, or of groups of one host each: it puts
// them in order, drops equal ones, and gives as many as are wanted.
type arranged struct {
	keys     []sortKey
	limit    string // "": none
	distinct bool
	borders  bool // behind the columns of the result are the borders of windows,
	hidden   int  // and then those by which rows are only put in order
}

type sortKey struct {
	column int    // of the result, from 0; < 0: by name
	name   string // of a column of the result
	hidden int    // of the hidden columns, from 1; 0: it is none
	desc   bool
	at     parser.Node
}

// edit replaces a part of the statement in what hosts execute.
type edit struct {
	parser.Span
	with string
}

// edited is the query with the edits.
func (w *splitter) edited() string {
	slices.SortStableFunc(w.edits, func(a, b edit) int { return a.Start - b.Start })
	var b strings.Builder
	b.WriteString(w.with)
	from := w.q.Start
	for _, e := range w.edits {
		b.WriteString(w.src[from:e.Start] + e.with)
		from = e.Stop
	}
	b.WriteString(w.src[from:w.stop()])
	return b.String() + w.until
}

// stop is where the query ends: the place of an outermost one may be told without its
// last clauses.
func (w *splitter) stop() int {
	if w.inner {
		return w.q.Stop
	}
	return len(w.src)
}

// arrange has the rows of hosts put together as the rows of each of them are: in the
// same order, each different one once, and not more of them.
func (w *splitter) arrange(sp *split) error {
	by := &arranged{distinct: w.sel != nil && w.sel.Distinct && !w.namesHost() && !sp.own}
	again := once
	switch windows := slices.ContainsFunc(w.q.Selects, func(s *parser.Select) bool { return windowed(s.From.First) }); {
	case windows:
		again = byWindow
	case w.q.Emit == nil, w.q.Emit.Mode == "FINAL":
	case w.q.Emit.Mode == "EVERY":
		again = byRound
	default: // row by row, in no order
		sp.each = w.edited()
		return nil
	}
	if len(w.q.OrderBy) == 0 && !by.distinct && !w.inner && (again == once || w.q.Limit == nil) {
		sp.each = w.edited()
		return nil
	}
	if again == byWindow {
		if w.sel == nil {
			return w.refuse(w.q.Selects[0], "query them one by one", "windows in a UNION over several hosts are not put together")
		}
		by.borders = true
		if err := w.select_(" window_start AS "+startColumn, " window_end AS "+endColumn); err != nil {
			return err
		}
	}
	if by.distinct {
		sp.host = -1
	}
	if err := w.orderKeys(by, sp); err != nil {
		return err
	}
	if w.q.Limit != nil {
		by.limit = w.q.Limit.Text
	}
	sp.limit, sp.ordered = 0, false
	sp.merge = &merge{src: w.src, arrange: by, again: again}
	sp.each = w.edited()
	return nil
}

// select_ has hosts give more columns, behind the others.
func (w *splitter) select_(columns ...string) error {
	items := w.sel.Items
	if len(items) == 0 {
		return w.refuse(w.sel, "write *, or the columns", "this query over several hosts needs a list of columns")
	}
	at := items[len(items)-1].Stop
	w.edits = append(w.edits, edit{parser.Span{Start: at, Stop: at}, "," + strings.Join(columns, ",")})
	return nil
}

// orderKeys finds out by what the rows are put in order here, and what of it hosts do.
func (w *splitter) orderKeys(by *arranged, sp *split) error {
	hosts := 0
	var theirs []string
	for _, o := range w.q.OrderBy {
		k := sortKey{column: -1, desc: o.Desc, at: o.X}
		text := w.src[o.X.Pos().Start:o.Pos().Stop]
		l, number := o.X.(*parser.Literal)
		c, column := o.X.(*parser.ColumnRef)
		switch {
		case number && l.Kind == parser.LitInt:
			n := int(l.Int) - 1
			k.column = n
			switch named := w.namesHost(); {
			case named && n == sp.host:
				text = ""
			case named && n > sp.host:
				text = strconv.Itoa(n) + text[len(l.Text):]
			case !named && sp.host >= 0:
				k.column++ // the host comes first, uncounted
			}
		case column && isHost(c):
			k.name, text = hostName, ""
		case w.sel == nil && column, column && w.selects(c.Parts[len(c.Parts)-1].Name):
			k.name = c.Parts[len(c.Parts)-1].Name
		case w.sel == nil, by.distinct:
			return w.refuse(o.X, "select it AS a name, and ORDER BY that", "rows of several hosts are put in order by columns of the result")
		default:
			by.hidden++
			k.hidden = by.hidden
			if err := w.select_(" " + w.text(o.X) + " AS o" + strconv.Itoa(k.hidden)); err != nil {
				return err
			}
		}
		if text == "" {
			hosts++
		} else {
			theirs = append(theirs, text)
		}
		by.keys = append(by.keys, k)
	}
	if n := len(w.q.OrderBy); n > 0 {
		if len(theirs) == 0 { // it still has to have an end
			theirs = []string{"1"}
		}
		w.edits = append(w.edits, edit{parser.Span{Start: w.q.OrderBy[0].Start, Stop: w.q.OrderBy[n-1].Stop}, strings.Join(theirs, ", ")})
	}
	return nil
}

// selects reports whether a name is, or may be, that of a column of the result.
func (w *splitter) selects(name string) bool {
	return slices.ContainsFunc(w.sel.Items, func(i *parser.SelectItem) bool {
		if i.X == nil {
			return true
		}
		if i.Alias != nil {
			return i.Alias.Name == name
		}
		c, ok := i.X.(*parser.ColumnRef)
		return ok && c.Parts[len(c.Parts)-1].Name == name
	})
}

// namesHost reports whether host is among the columns that the query selects.
func (w *splitter) namesHost() bool {
	return w.sel != nil && slices.ContainsFunc(w.sel.Items, func(i *parser.SelectItem) bool { return i.X != nil && isHost(i.X) })
}

// arrangement is the second stage that arranges rows. Their columns get names that
// differ; the result has those that they had.
func (m *merge) arrangement(g *gathered) (of *merge, named []wire.Column, err error) {
	had := g.cols
	g.cols = slices.Clone(had)
	names := make([]string, len(had))
	for i := range had {
		names[i] = "c" + strconv.Itoa(i)
		g.cols[i].Name = names[i]
	}
	given := len(had) - m.arrange.hidden
	of = &merge{src: m.src, again: m.again}
	if m.arrange.borders {
		given -= 2
		of.borders = given
	}
	var cols []string
	for i := range given {
		cols = append(cols, names[i]+` AS "`+strings.ReplaceAll(had[i].Name, `"`, `""`)+`"`)
	}
	if m.before == "" { // names may occur twice
		cols = names[:given]
	}
	query := "SELECT " + map[bool]string{true: "DISTINCT "}[m.arrange.distinct] + strings.Join(cols, ", ") + " FROM file('" + secondSource + "')"
	var keys []string
	for _, k := range m.arrange.keys {
		at := k.column
		switch {
		case k.hidden > 0:
			at = len(had) - m.arrange.hidden + k.hidden - 1
		case at < 0:
			at = slices.IndexFunc(had[:given], func(c wire.Column) bool { return strings.EqualFold(c.Name, k.name) })
		}
		if at < 0 || k.hidden == 0 && at >= given {
			pos := k.at.Pos()
			return nil, nil, &parser.Error{Msg: "rows of several hosts are put in order by columns of the result", Hint: "select " + m.src[pos.Start:pos.Stop] + ", too", Pos: pos, Src: m.src}
		}
		keys = append(keys, names[at]+map[bool]string{true: " DESC"}[k.desc])
	}
	if len(keys) > 0 {
		if g.host >= 0 { // equal rows: by host, not by who was first
			keys = append(keys, names[min(g.host, given-1)])
		}
		query += " ORDER BY " + strings.Join(keys, ", ")
	}
	if m.arrange.limit != "" {
		query += " LIMIT " + m.arrange.limit
	}
	of.query = m.before + query + m.after
	return of, had[:given], nil
}

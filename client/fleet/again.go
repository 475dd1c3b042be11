package fleet

import (
	"slices"
	"strconv"
	"strings"

	"endoscope/parser"
)

// again says how often an aggregate over several hosts has a result.
type again uint8

const (
	once     again = iota // when all hosts are through
	byWindow              // for each window, when no host has more of it
	byRound               // EMIT EVERY: when each host has given its totals once more
)

// The columns that hosts give before all others: the borders of windows; and, after
// the keys, what COUNT(DISTINCT) counts.
const (
	startColumn  = "ws"
	endColumn    = "we"
	uniqueColumn = "d0"
)

// repeats finds out how often there is a result, and refuses what cannot be merged.
func (w *splitter) repeats() error {
	from := w.sel.From.First
	switch {
	case windowed(from):
		for s := from; s != nil; s = s.Src {
			if s.Kind == parser.SourceSession {
				return w.refuse(s, perHostHint, "where a SESSION begins and ends follows from the rows of one host: those of several are not merged")
			}
		}
		w.again = byWindow
	case w.q.Emit == nil, w.q.Emit.Mode == "FINAL":
	case w.q.Emit.Mode == "EVERY":
		w.again = byRound
	default:
		return w.refuse(w.q.Emit, "EMIT EVERY 1s gives totals of all", "each change of one host's group is no result of several: EMIT %s is not merged", w.q.Emit.Mode)
	}
	return nil
}

// windowColumns are the borders of windows, where there are windows.
func (w *splitter) windowColumns() []string {
	if w.again != byWindow {
		return nil
	}
	return []string{"window_start AS " + startColumn, "window_end AS " + endColumn}
}

// groups are the columns by which the second stage groups.
func (w *splitter) groups(key string) []string {
	var by []string
	if w.again == byWindow {
		by = append(by, startColumn, endColumn)
	}
	for i := range w.keys {
		by = append(by, key+strconv.Itoa(i))
	}
	return by
}

// border is the second stage's column for the border of a window.
func (w *splitter) border(c *parser.ColumnRef) (name string, ok bool) {
	if w.again != byWindow {
		return "", false
	}
	switch strings.ToLower(c.Parts[len(c.Parts)-1].Name) {
	case "window_start":
		return startColumn, true
	case "window_end":
		return endColumn, true
	}
	return "", false
}

// counted has COUNT(DISTINCT x) computed from the distinct values of all hosts: each
// gives its groups by x, too, and these are counted here. What else is aggregated
// only has smaller groups to be merged of.
func (w *splitter) counted(c *parser.Call) (string, error) {
	x := w.text(c.Args[0].X)
	_, literal := c.Args[0].X.(*parser.Literal)
	switch {
	case c.Filter != nil:
		x = "CASE WHEN " + w.text(c.Filter) + " THEN " + x + " END"
	case literal: // alone it would be the number of a column
		x = "CASE WHEN TRUE THEN " + x + " END"
	}
	if w.unique != "" && w.unique != x {
		return "", w.refuse(c, perHostHint, "one COUNT(DISTINCT) of several hosts' rows is found at a time, and %s is a second one", w.text(c))
	}
	w.unique = x
	return "COUNT(DISTINCT " + uniqueColumn + ")", nil
}

// distinct splits SELECT DISTINCT: each host gives its distinct rows, of which those
// that differ are the result's, as they come.
func (w *splitter) distinct() (*split, error) {
	if err := w.checkSources(); err != nil {
		return nil, err
	}
	switch {
	case w.q.Emit != nil && w.q.Emit.Mode != "FINAL":
		return nil, w.refuse(w.q.Emit, "", "DISTINCT rows of several hosts come once")
	case windowed(w.sel.From.First):
		return nil, w.refuse(w.sel.From.First, "GROUP BY the columns instead", "DISTINCT rows of windows of several hosts are not merged")
	}
	w.rowsOf = true
	var cols []string
	for i, item := range w.sel.Items {
		if item.X == nil {
			return nil, w.refuse(item, "name the columns", "the DISTINCT rows of several hosts need columns with names")
		}
		w.keys = append(w.keys, w.text(item.X))
		cols = append(cols, "k"+strconv.Itoa(i))
	}
	if len(cols) == 0 {
		return nil, w.refuse(w.sel, "name the columns", "the DISTINCT rows of several hosts need columns with names")
	}
	second, err := w.tail("SELECT DISTINCT " + strings.Join(cols, ", ") + " FROM file('" + secondSource + "')")
	if err != nil {
		return nil, err
	}
	return &split{each: w.first(), host: -1, merge: &merge{src: w.src, query: second}}, nil
}

// sources are those of a query, with what they are made of: streams by name, files
// and the like. A name of a WITH clause is none.
func sources(q *parser.Query) (found []*parser.Source) {
	var of func(q *parser.Query, within []string)
	walk := func(s *parser.Source, within []string) {
		for ; s != nil; s = s.Src {
			switch {
			case s.Query != nil:
				of(s.Query, within)
			case s.Name != nil && !slices.Contains(within, s.Name.Name):
				found = append(found, s)
			}
		}
	}
	of = func(q *parser.Query, within []string) {
		within = slices.Clip(within)
		for _, c := range q.With {
			of(c.Query, within)
			within = append(within, c.Name.Name)
		}
		for _, sel := range q.Selects {
			walk(sel.From.First, within)
			for _, j := range sel.From.Joins {
				walk(j.Right, within)
			}
		}
	}
	of(q, nil)
	return found
}

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
	once      again = iota // when all hosts are through
	byWindow               // for each window, when no host has more of it
	bySession              // for each session, when no host can have more of it
	byRound                // EMIT EVERY: when each host has given its totals once more
	byChange               // EMIT CHANGES: when a host's group has changed
)

// The columns that hosts give before all others are the borders of windows, and of
// sessions when the first and the last row was and how many rows count; after the keys,
// what the sessions are partitioned by; after the values, what COUNT(DISTINCT) counts;
// and how far a host's clock is ahead, which is added here.
const (
	startColumn     = "ws"
	endColumn       = "we"
	firstColumn     = "t0"
	lastColumn      = "t1"
	countColumn     = "c"
	partitionColumn = "p"
	uniqueColumn    = "d"
	aheadColumn     = "ahead"
)

// repeats finds out how often there is a result.
func (w *splitter) repeats() error {
	from := w.sel.From.First
	switch {
	case windowed(from):
		w.again = byWindow
		if s := from; s.Kind == parser.SourceSession {
			w.again, w.session = bySession, s
			return w.checkSession()
		}
	case w.q.Emit == nil, w.q.Emit.Mode == "FINAL":
	case w.q.Emit.Mode == "EVERY":
		w.again = byRound
	default:
		w.again = byChange
		if w.sel.Distinct {
			return w.refuse(w.sel, "leave DISTINCT out", "DISTINCT changes of groups of several hosts are not told apart")
		}
	}
	return nil
}

// windowColumns are the borders of windows, where there are windows.
func (w *splitter) windowColumns() []string {
	cols := []string{"window_start AS " + startColumn, "window_end AS " + endColumn}
	switch w.again {
	case byWindow:
		return cols
	case bySession:
		count := "COUNT(*)"
		if w.where != "" {
			count += " FILTER (WHERE " + w.where + ")"
		}
		return append(cols, "FIRST_TIME(TRUE) AS "+firstColumn, "LAST_TIME(TRUE) AS "+lastColumn, count+" AS "+countColumn)
	}
	return nil
}

// groups are the columns by which the second stage groups.
func (w *splitter) groups(key string) []string {
	var by []string
	if w.again == byWindow || w.again == bySession {
		by = append(by, startColumn, endColumn)
	}
	for i := range w.keys {
		by = append(by, key+strconv.Itoa(i))
	}
	return by
}

// border is the second stage's column for the border of a window.
func (w *splitter) border(c *parser.ColumnRef) (name string, ok bool) {
	if w.again != byWindow && w.again != bySession || !isBorder(c) {
		return "", false
	}
	if strings.EqualFold(c.Parts[len(c.Parts)-1].Name, "window_start") {
		return startColumn, true
	}
	return endColumn, true
}

func isBorder(c *parser.ColumnRef) bool {
	switch strings.ToLower(c.Parts[len(c.Parts)-1].Name) {
	case "window_start", "window_end":
		return true
	}
	return false
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

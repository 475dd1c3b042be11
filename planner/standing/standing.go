package standing

import (
	"fmt"
	"slices"
	"strings"

	"endoscope/parser"
	"endoscope/planner/plan"
)

// Columns are added to the columns of a standing query: the time of a row is the end of its
// window, revisions are numbered from 0, and the last one is final.
const (
	Time     = "timestamp"
	Revision = "revision"
	Final    = "final"
)

// Query returns a query as hosts execute it for CREATE QUERY: one of windows. src is the text
// that its positions refer to. Errors are *parser.Error.
func Query(q *parser.Query, src string) (*parser.Query, error) {
	refuse := func(at parser.Span, hint, format string, args ...any) (*parser.Query, error) {
		return nil, &parser.Error{Msg: fmt.Sprintf(format, args...), Hint: hint, Pos: at, Src: src}
	}
	if parser.Params(src) > 0 {
		return refuse(parser.Span{Start: -1}, "write the values", "a standing query has no parameters")
	}
	if q.For != nil {
		return refuse(q.For.Pos(), "DROP QUERY ends it", "a standing query has no FOR: it runs until it is dropped")
	}
	if len(q.Selects) != 1 || q.Selects[0].From == nil {
		return refuse(q.Pos(), "one SELECT ... FROM a stream", "a standing query is an aggregate of one SELECT")
	}
	s := q.Selects[0]
	window := windowOf(s.From.First)
	if !aggregated(s) {
		at, what := q.Pos(), "a standing query aggregates at intervals, and this one has single rows"
		if len(q.OrderBy) > 0 && window == nil {
			at, what = q.OrderBy[0].Pos(), "the rows of a stream have no end at which they could be sorted"
		}
		return refuse(at, "SELECT function_name, COUNT(*) FROM ... GROUP BY function_name EMIT EVERY 10s", "%s", what)
	}
	if finite := finiteIn(s.From); finite != nil {
		return refuse(finite.Pos(), "streams have no end", "%s ends, and a standing query does not", finite)
	}
	every := q.Emit != nil && q.Emit.Every != nil
	switch {
	case q.Emit != nil && !every:
		return refuse(q.Emit.Pos(), "EMIT EVERY 10s", "a standing query emits at intervals")
	case window == nil && !every:
		return refuse(parser.Span{Start: q.Stop, Stop: q.Stop}, "EMIT EVERY 10s, or FROM TUMBLE("+s.From.First.String()+", 10s)", "a standing query needs EMIT EVERY, or a window")
	case window != nil && every:
		return refuse(q.Emit.Pos(), "leave out EMIT", "windows are emitted when they are over")
	case window != nil && window.Kind == parser.SourceSession:
		return refuse(window.Pos(), "TUMBLE or HOP", "a standing query has windows of one size, and sessions have any")
	case every && len(s.From.Joins) > 0:
		return refuse(q.Emit.Pos(), "FROM TUMBLE((SELECT ... FROM a WINDOW JOIN b ...), 10s)", "a standing query of a join needs a window")
	}
	if name := taken(s); name != nil {
		return refuse(name.Pos(), "AS another name", "%s is a column that every standing query has", name.Name)
	}
	if !every {
		return q, nil
	}
	of, sel, from := *q, *s, *s.From
	from.First = &parser.Source{Span: from.First.Span, Kind: parser.SourceTumble, Args: []*parser.Literal{q.Emit.Every}, Src: from.First}
	sel.From, of.Emit = &from, nil
	of.Selects = []*parser.Select{&sel}
	return &of, nil
}

// windowOf returns the source if it is a window; nil: it is none.
func windowOf(s *parser.Source) *parser.Source {
	switch s.Kind {
	case parser.SourceTumble, parser.SourceHop, parser.SourceSession:
		return s
	}
	return nil
}

// aggregated reports whether a SELECT has groups.
func aggregated(s *parser.Select) bool {
	return len(s.GroupBy) > 0 || slices.ContainsFunc(s.Items, func(i *parser.SelectItem) bool { return i.X != nil && aggregates(i.X) })
}

func aggregates(x parser.Expr) bool {
	if c, ok := x.(*parser.Call); ok && plan.FindAgg(strings.ToLower(c.Name.Name)) != nil {
		return true
	}
	return slices.ContainsFunc(parser.Children(x), aggregates)
}

// finiteIn returns a source that ends by itself; nil: there is none.
func finiteIn(f *parser.From) *parser.Source {
	if f == nil {
		return nil
	}
	all := []*parser.Source{f.First}
	for _, j := range f.Joins {
		all = append(all, j.Right)
	}
	for _, s := range all {
		for s.Src != nil {
			s = s.Src
		}
		switch s.Kind {
		case parser.SourceFile, parser.SourceSeries:
			return s
		case parser.SourceQuery:
			for _, inner := range s.Query.Selects {
				if found := finiteIn(inner.From); found != nil {
					return found
				}
			}
		}
	}
	return nil
}

// taken returns the name of a selected column that is one of a standing query's own.
func taken(s *parser.Select) *parser.Ident {
	for _, i := range s.Items {
		name := i.Alias
		if ref, ok := i.X.(*parser.ColumnRef); ok && name == nil {
			name = ref.Parts[len(ref.Parts)-1]
		}
		if name != nil && slices.Contains([]string{Time, Revision, Final}, strings.ToLower(name.Name)) {
			return name
		}
	}
	return nil
}

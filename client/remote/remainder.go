package remote

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"endoscope/parser"
)

// errStartsOver is the error of a statement with rows that would return them again.
var errStartsOver = errors.New("not resumed: the statement would return its first rows again")

// remainder returns what is left to execute of a read-only statement, parsed from
// text, after it ran for a time and returned rows: LIMIT and FOR apply to the whole
// result. done: all rows were returned. It fails if the time is over or if the same
// rows would be returned again.
func remainder(parsed parser.Statement, text string, rows uint64, ran time.Duration) (rest string, done bool, err error) {
	q, limited := parsed.(*parser.Query)
	if x, ok := parsed.(*parser.Explain); ok && x.Analyze { // LIMIT does not apply to its rows
		q, _ = x.Of.(*parser.Query)
	}
	switch {
	case q == nil && rows == 0:
		return text, false, nil
	case q == nil:
		return "", false, errStartsOver
	case limited && q.Limit != nil && rows >= uint64(max(q.Limit.Int, 0)):
		return "", true, nil
	case rows > 0 && (!limited || startsOver(q, nil)):
		return "", false, errStartsOver
	}
	rest = text
	if q.For != nil { // the last clause: the text before it is unchanged
		left := time.Duration(q.For.Int) - ran
		if left <= 0 {
			return "", false, fmt.Errorf("its time limit, FOR %s, has passed", q.For.Text)
		}
		rest = with(rest, q.For, fmt.Sprintf("%dus", max(left.Microseconds(), 1)))
	}
	if limited && q.Limit != nil {
		rest = with(rest, q.Limit, fmt.Sprint(uint64(q.Limit.Int)-rows))
	}
	return rest, false, nil
}

// with returns a statement with a literal replaced by text.
func with(statement string, l *parser.Literal, text string) string {
	return statement[:l.Start] + text + statement[l.Stop:]
}

// startsOver reports whether a query returns the same rows again when executed again:
// one of its SELECTs reads only finite sources and no live ones. within are the
// enclosing WITH clauses, inner ones last.
func startsOver(q *parser.Query, within []*parser.CTE) bool {
	within = append(slices.Clip(within), q.With...)
	return slices.ContainsFunc(q.Selects, func(s *parser.Select) bool {
		if s.From == nil {
			return true
		}
		sources := []*parser.Source{s.From.First}
		for _, j := range s.From.Joins {
			sources = append(sources, j.Right)
		}
		return !slices.ContainsFunc(sources, func(s *parser.Source) bool { return !hasBeginning(s, within) })
	})
}

func hasBeginning(s *parser.Source, within []*parser.CTE) bool {
	part := func(q *parser.Query, within []*parser.CTE) bool {
		return q.Limit != nil || q.For != nil || startsOver(q, within)
	}
	switch {
	case s.Kind == parser.SourceFile, s.Kind == parser.SourceSeries:
		return true
	case s.Kind == parser.SourceQuery:
		return part(s.Query, within)
	case s.Src != nil:
		return hasBeginning(s.Src, within)
	case s.Kind != parser.SourceStream:
		return false
	}
	for i, c := range slices.Backward(within) {
		if strings.EqualFold(c.Name.Name, s.Name.Name) {
			return part(c.Query, within[:i]) // only the preceding ones are visible to it
		}
	}
	return false
}

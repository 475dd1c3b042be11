package remote

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"endoscope/parser"
)

// errStartsOver refuses to execute a statement again of which there are rows.
var errStartsOver = errors.New("it does not go on: the statement would give its first rows again")

// remainder is what is left to execute of a statement that only reads, parsed from a
// text, after it ran for a time and gave rows: LIMIT and FOR apply to the whole result.
// done: it has all its rows. It is an error if its time is over, or if it would give the
// same rows again.
func remainder(parsed parser.Statement, text string, rows uint64, ran time.Duration) (rest string, done bool, err error) {
	q, limited := parsed.(*parser.Query)
	if x, ok := parsed.(*parser.Explain); ok && x.Analyze { // LIMIT is not of its rows
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
	if q.For != nil { // the last clause: what stands before it stays where it is
		left := time.Duration(q.For.Int) - ran
		if left <= 0 {
			return "", false, fmt.Errorf("its time, FOR %s, is over", q.For.Text)
		}
		rest = with(rest, q.For, fmt.Sprintf("%dus", max(left.Microseconds(), 1)))
	}
	if limited && q.Limit != nil {
		rest = with(rest, q.Limit, fmt.Sprint(uint64(q.Limit.Int)-rows))
	}
	return rest, false, nil
}

// with is a statement with another text in a literal's place.
func with(statement string, l *parser.Literal, text string) string {
	return statement[:l.Start] + text + statement[l.Stop:]
}

// startsOver reports whether a query gives rows again when it is executed again:
// one of its SELECTs reads only what has a beginning, and not what goes on
// meanwhile. within are the WITH clauses around it, inner ones last.
func startsOver(q *parser.Query, within []*parser.CTE) bool {
	within = append(slices.Clip(within), q.With...)
	return slices.ContainsFunc(q.Selects, func(s *parser.Select) bool {
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
			return part(c.Query, within[:i]) // it sees those before it
		}
	}
	return false
}

package fleet

import (
	"slices"

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

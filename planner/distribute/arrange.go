package distribute

import (
	"slices"

	"endoscope/planner/plan"
)

// arranged divides a plan at a node that sorts, deduplicates or limits rows: each
// host executes it over its own rows first, and the root over all of them.
func (d *divider) arranged(cut plan.Node, above []plan.Node) (*Share, error) {
	base := cut.Inputs()[0]
	if l, ok := cut.(*plan.Limit); ok && len(above) == 0 && !l.PerFlush {
		// Rows are returned in order of arrival, up to the limit.
		return d.limited(l)
	}
	x := &plan.Exchange{Notices: d.Notices}
	lower, perFlush := ofHost(cut), resets(cut)
	for i := len(above) - 1; i >= 0 && isTail(above[i]); i-- {
		lower = ofHost(above[i].WithInputs([]plan.Node{lower}))
		perFlush = perFlush || resets(above[i])
	}
	emit := emits(cut)
	if emit == plan.Final {
		emit = emitted(base)
	}
	switch {
	case emit == plan.Changes: // row by row, in no order
		if l, ok := cut.(*plan.Limit); ok && len(above) == 0 {
			return d.limited(l)
		}
		return nil, d.refuse(cut, "leave EMIT CHANGES out", "changes of several hosts cannot be ordered")
	case windowed(base) && perFlush:
		at, ok := d.borders(base)
		if !ok {
			return nil, d.refuse(cut, "query them one by one", "windows in a UNION or a join over several hosts are not supported")
		}
		x.Again, x.Start, x.End = plan.PerWindow, at, at+1
	case emit == plan.Every:
		x.Again = plan.PerRound
	}
	if x.Again != plan.Once && slices.ContainsFunc(above, remembers) {
		return nil, d.refuse(cut, "leave ORDER BY, LIMIT and DISTINCT to the outer query, or to one of its own", "results of windows over several hosts cannot be aggregated or ordered again")
	}
	return d.share(lower, x, over(append(slices.Clone(above), cut), leafOf(base.Schema()))), nil
}

// ofHost returns a node as each host executes it: any of a host's first rows may be the
// first of all, so that only the root skips rows.
func ofHost(n plan.Node) plan.Node {
	l, ok := n.(*plan.Limit)
	if !ok {
		return n
	}
	c := *l
	c.N, c.Skip = l.Reach(), 0
	return &c
}

// checkSkip refuses a limit that skips rows in their order of arrival from several hosts.
func (d *divider) checkSkip(l *plan.Limit) error {
	if l.Skip == 0 {
		return nil
	}
	return d.refuse(l, "add ORDER BY, or leave OFFSET out", "rows of several hosts arrive in no order, so that OFFSET has no meaning")
}

// limited returns a share whose rows are returned in order of arrival, up to the
// limit.
func (d *divider) limited(l *plan.Limit) (*Share, error) {
	if err := d.checkSkip(l); err != nil {
		return nil, err
	}
	of := *d.Statement
	of.Root = l.Input
	s, err := (&divider{&of}).rows()
	if err != nil {
		return nil, err
	}
	s.Lower, s.Upper.Exchange.Limit = l, l.N
	return s, nil
}

// emitted returns the EMIT mode of the aggregate that is the source of rows.
func emitted(n plan.Node) plan.EmitMode {
	for ; len(n.Inputs()) == 1; n = n.Inputs()[0] {
		if a, ok := n.(*plan.Aggregate); ok {
			return a.Emit.Mode
		}
	}
	return plan.Final
}

// resets reports whether a node that remembers rows begins again with each result.
func resets(n plan.Node) bool {
	switch n := n.(type) {
	case *plan.Limit:
		return n.PerFlush
	case *plan.Distinct:
		return n.PerFlush
	case *plan.Sort:
		return true
	}
	return false
}

// remembers reports whether a node remembers something of the results before.
func remembers(n plan.Node) bool {
	switch n.(type) {
	case *plan.Filter, *plan.Project:
		return false
	}
	return !resets(n)
}

// borders returns the index of the first column with the borders of windows.
func (d *divider) borders(n plan.Node) (at int, ok bool) {
	for ; len(n.Inputs()) == 1; n = n.Inputs()[0] {
		if at, ok := d.Borders[n]; ok {
			return at, true
		}
		if _, ok := n.(*plan.Project); ok {
			return 0, false
		}
	}
	return 0, false
}

// over chains nodes, the topmost first, above a leaf. Each result is computed
// independently: a sort emits when a result ends.
func over(spine []plan.Node, leaf plan.Node) plan.Node {
	spine = slices.Clone(spine)
	for i, n := range spine {
		if s, ok := n.(*plan.Sort); ok {
			c := *s
			c.Emit = plan.Emit{}
			spine[i] = &c
		}
	}
	return chain(spine, leaf)
}

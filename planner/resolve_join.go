package planner

import (
	"slices"
	"time"

	"endoscope/parser"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// from resolves a FROM clause: sources joined from left to right. Without one (nil) there is
// one row, which has no columns.
func (r *resolver) from(f *parser.From, with ctes, lv level, every time.Duration) (*scope, error) {
	if f == nil {
		one := &plan.Values{Rows: make([][]plan.Const, 1), Out: types.Schema{Time: -1}}
		return &scope{node: one, finite: true}, nil
	}
	if len(f.Joins) == 0 {
		return r.source(f.First, with, lv, every)
	}
	var out *scope
	var err error
	if f.Joins[0].Kind == parser.JoinPlain {
		out, err = r.valued(f.First, with)
	} else {
		out, err = r.joined(f.First, with)
	}
	if err != nil {
		return nil, err
	}
	for _, j := range f.Joins {
		if out, err = r.join(out, j, with); err == nil {
			err = r.countColumns(len(out.fields()), j.Pos())
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

var joinKinds = map[parser.JoinKind]plan.JoinKind{
	parser.JoinWindow: plan.WindowJoin, parser.JoinLeftWindow: plan.LeftWindowJoin, parser.JoinAsOf: plan.AsOfJoin,
}

// joined resolves a source of a join: it must have tuples with times.
func (r *resolver) joined(s *parser.Source, with ctes) (*scope, error) {
	out, err := r.source(s, with, nested, 0)
	if err != nil {
		return nil, err
	}
	switch sch := out.node.Schema(); {
	case out.estimated:
		return nil, r.estimatesInJoin(s)
	case out.windowed:
		return nil, r.hintf(s.Pos(), "aggregate it in a sub-query, or join first", "a window cannot be joined")
	case sch.Time < 0 || sch.Fields[sch.Time].Type != types.Timestamp:
		return nil, r.errorf(s.Pos(), "a join needs rows with a timestamp, which this source does not have")
	}
	return out, r.checkTimestamp(out, s)
}

// checkTimestamp rejects a join by the time of rows in which another column is named
// timestamp.
func (r *resolver) checkTimestamp(out *scope, s *parser.Source) error {
	switch {
	case !out.misnamed:
		return nil
	case out.ends:
		return r.hintf(s.Pos(), "window_end AS timestamp, or another name", "the time of this source's rows is the end of their window, but its column timestamp is another time")
	}
	return r.hintf(s.Pos(), "write AS and another name after the other's, as in b.timestamp AS later",
		"the rows of this source go by the timestamp of the first of what it joins, and it calls another one timestamp")
}

func (r *resolver) join(l *scope, j *parser.Join, with ctes) (*scope, error) {
	if j.Kind == parser.JoinPlain {
		return r.joinValue(l, j, with)
	}
	right, err := r.joined(j.Right, with)
	if err != nil {
		return nil, err
	}
	if err := r.distinctNames(l, right, j.Right); err != nil {
		return nil, err
	}
	n := plan.Join{Left: l.node, Right: right.node, Kind: joinKinds[j.Kind]}
	if j.Within != nil {
		if n.Within = time.Duration(j.Within.Int); n.Within < 0 {
			return nil, r.errorf(j.Within.Pos(), "a window's size must not be negative")
		}
		if n.Within > maxWindow {
			return nil, r.tooLargeWindow(j.Within)
		}
	}
	out := joinedScope(l, right, plan.NewJoin(n))
	ec := &exprCtx{r: r, in: out, clause: "ON"}
	if j.On != nil {
		if n.On, err = ec.boolean(j.On); err != nil {
			return nil, err
		}
	}
	if err := r.followedBy(&n, j, l, right); err != nil {
		return nil, err
	}
	return tidied(joinedScope(l, right, plan.NewJoin(n)), l, right), nil
}

// valued resolves a source that may have a value at every instant instead of tuples.
func (r *resolver) valued(s *parser.Source, with ctes) (*scope, error) {
	out, err := r.source(s, with, definition, 0)
	switch {
	case err != nil:
	case out.estimated:
		err = r.estimatesInJoin(s)
	case out.windowed:
		err = r.hintf(s.Pos(), "aggregate it in a sub-query, or join first", "a window cannot be joined")
	}
	return out, err
}

// joinValue resolves JOIN: one side has tuples, the other a value, which is acquired when a
// tuple arrives. The value is the right input of the plan.
func (r *resolver) joinValue(l *scope, j *parser.Join, with ctes) (*scope, error) {
	right, err := r.valued(j.Right, with)
	if err != nil {
		return nil, err
	}
	if l.bare == nil && right.bare == nil {
		right.bare = right.sampled // it has tuples too, but here its value is used
	}
	switch {
	case l.bare == nil && right.bare == nil:
		return nil, r.hintf(j.Pos(), "WINDOW JOIN ... WINDOW 1s pairs tuples of two streams, ASOF JOIN takes the latest",
			"JOIN takes the value of a stream that has one at every instant, and both of these have tuples")
	case l.bare != nil && right.bare != nil:
		return nil, r.hintf(j.Pos(), "write SAMPLE around one of them", "both sides of this JOIN have values at every instant and no tuples")
	}
	if err := r.distinctNames(l, right, j.Right); err != nil {
		return nil, err
	}
	n := plan.Join{Left: l.node, Right: right.node, Kind: plan.ValueJoin}
	swapped := l.bare != nil
	if swapped {
		n.Left, n.Right = right.node, l.node
	}
	if n.Left.Schema().Time < 0 {
		return nil, r.errorf(j.Pos(), "a join needs rows with a timestamp, which this source does not have")
	}
	n.Right = onDemand(n.Right)
	build := func() *scope {
		node := plan.NewJoin(n)
		if !swapped {
			return joinedScope(l, right, node)
		}
		return joinedScope(right, l, node)
	}
	out := build()
	if j.On != nil {
		if n.On, err = (&exprCtx{r: r, in: out, clause: "ON"}).boolean(j.On); err != nil {
			return nil, err
		}
		out = build()
	}
	out.finite = l.finite || right.finite
	if swapped {
		return asWritten(out, right, l), nil
	}
	return tidied(out, l, right), nil
}

// onDemand makes the acquisitions of n acquire values only when a join requests them.
func onDemand(n plan.Node) plan.Node {
	return plan.TransformNodes(n, func(n plan.Node) plan.Node {
		a, ok := n.(*plan.Acquire)
		if !ok {
			return n
		}
		c := *a
		c.OnDemand = true
		return &c
	})
}

func (r *resolver) distinctNames(l, right *scope, at *parser.Source) error {
	for _, name := range right.names {
		if slices.Contains(l.names, name) {
			return r.hintf(at.Pos(), "write AS and another name after one of them", "two sources are called %s", name)
		}
	}
	return nil
}

func joinedScope(l, right *scope, n *plan.Join) *scope {
	return &scope{node: n, visible: len(n.Out.Fields), names: slices.Concat(l.names, right.names), finite: l.finite && right.finite}
}

// followedBy adds a FOLLOWED BY b to the join. The first source provides the time of a
// joined row; others are compared by their own timestamps.
func (r *resolver) followedBy(n *plan.Join, j *parser.Join, l, right *scope) error {
	f := j.FollowedBy
	if f == nil {
		return nil
	}
	for _, id := range []*parser.Ident{f.First, f.Second} {
		if all := slices.Concat(l.names, right.names); !slices.Contains(all, id.Name) {
			return r.hintf(id.Pos(), plan.DidYouMean(id.Name, all), "there is no source in FROM called %s", id.Name)
		}
	}
	before, later := f.First.Name, slices.Contains(right.names, f.Second.Name)
	if !later {
		before = f.Second.Name
	}
	if after := slices.Contains(right.names, before); after || !later && !slices.Contains(right.names, f.First.Name) {
		return r.errorf(f.Pos(), "FOLLOWED BY compares a source with the one that is joined to it")
	}
	if before == l.names[0] {
		n.Followed = 1
		if !later {
			n.Followed = -1
		}
		return nil
	}
	first, err := r.timeOf(l, before, 0)
	if err != nil {
		return r.errorf(f.Pos(), "%s has no timestamp to compare", before)
	}
	second := timeColumn(right.node.Schema(), len(l.fields()))
	op := "<"
	if !later {
		op = ">"
	}
	cond := &plan.Call{Fn: op, Args: []plan.Expr{first, second}, T: types.Boolean}
	n.On = plan.And(n.On, cond)
	return nil
}

// timeOf returns the timestamp of one of several joined sources.
func (r *resolver) timeOf(s *scope, name string, at int) (plan.Expr, error) {
	i, n := s.column(name, "timestamp")
	if n != 1 {
		return nil, r.errorf(parser.Span{}, "no timestamp")
	}
	f := s.fields()[i]
	return &plan.Col{Index: at + i, Name: f.Name, T: f.Type}, nil
}

func timeColumn(s types.Schema, at int) plan.Expr {
	f := s.Fields[s.Time]
	return &plan.Col{Index: at + s.Time, Name: f.Name, T: f.Type}
}

// tidied moves the columns that * excludes after those that it includes.
func tidied(s, l, right *scope) *scope {
	n := len(l.fields())
	if l.visible == n {
		s.visible = n + right.visible
		return s
	}
	return s.arranged([]columns{{0, l.visible}, {n, n + right.visible}}, []columns{{l.visible, n}, {n + right.visible, len(s.fields())}})
}

// asWritten moves the columns of the source written second, which are the first of the
// join's, after those of the other.
func asWritten(s, second, first *scope) *scope {
	n := len(second.fields())
	return s.arranged([]columns{{n, n + first.visible}, {0, second.visible}}, []columns{{n + first.visible, len(s.fields())}, {second.visible, n}})
}

// columns are the column indexes from <= i < to.
type columns struct{ from, to int }

// arranged reorders the columns of s; * includes the visible ones.
func (s *scope) arranged(visible, hidden []columns) *scope {
	in := s.node.Schema()
	p := &plan.Project{Input: s.node, Out: types.Schema{Time: -1}}
	for i, part := range [][]columns{visible, hidden} {
		for _, c := range part {
			for k := c.from; k < c.to; k++ {
				if k == in.Time {
					p.Out.Time = len(p.Exprs)
				}
				p.Exprs = append(p.Exprs, &plan.Col{Index: k, Name: in.Fields[k].Name, T: in.Fields[k].Type})
				p.Out.Fields = append(p.Out.Fields, in.Fields[k])
			}
		}
		if i == 0 {
			s.visible = len(p.Exprs)
		}
	}
	s.node = p
	return s
}

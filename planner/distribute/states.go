package distribute

import (
	"slices"

	"endoscope/parser"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// states divides a plan at an aggregate: hosts send the states of its groups, and
// the root merges them.
func (d *divider) states(a *plan.Aggregate, above []plan.Node) (*Share, error) {
	if i := slices.IndexFunc(a.Aggs, ofOneHost); i >= 0 {
		return nil, d.refuse(a, OwnHint, "%s inside a query over several hosts is each host's own", a.Aggs[i].String())
	}
	x := &plan.Exchange{Kind: plan.MergeStates, Notices: d.Notices}
	lower, upper, err := d.firstStage(a, x)
	if err != nil {
		return nil, err
	}
	if x.Again != plan.Once && slices.ContainsFunc(above, remembers) {
		if err := d.together(a, above, x); err != nil {
			return nil, err
		}
	}
	if x.Again == plan.PerChange {
		if len(above) > 0 {
			if l, ok := above[0].(*plan.Limit); ok && l.N > 0 {
				if err := d.checkSkip(l); err != nil {
					return nil, err
				}
				x.Limit, above = l.N, above[1:]
			}
		}
		for _, n := range above {
			if _, ok := n.(*plan.Distinct); ok {
				return nil, d.refuse(n, "leave DISTINCT out", "EMIT CHANGES over several hosts does not support DISTINCT")
			}
		}
	}
	return d.share(lower, x, over(above, upper)), nil
}

// together combines the groups of all windows into one result, at the end, if a
// node above keeps state across windows.
func (d *divider) together(a *plan.Aggregate, above []plan.Node, x *plan.Exchange) error {
	if x.Again == plan.PerChange {
		if _, ok := above[0].(*plan.Limit); ok && !slices.ContainsFunc(above[1:], remembers) {
			return nil
		}
	}
	for _, n := range slices.Backward(above) {
		switch n.(type) {
		case *plan.Filter, *plan.Project:
			continue
		}
		if x.Again != plan.PerWindow || !remembers(n) {
			return d.refuse(a, "leave ORDER BY, LIMIT and SESSION to the outer query, or to one of its own", "results of windows over several hosts cannot be aggregated or ordered again")
		}
		x.Again = plan.Once
		return nil
	}
	return nil
}

// ofOneHost reports whether an aggregate is only meaningful within a host:
// sequences, which are encoded at one site, stacks of programs, and the entities
// that are present.
func ofOneHost(a plan.Agg) bool { return OneHostAggregate(a.Fn) }

// OneHostAggregate reports whether the aggregate of this name is only meaningful
// within a host.
func OneHostAggregate(name string) bool {
	named := func(f plan.AggFunc) bool { return f.Name == name }
	return plan.IsEncoder(name) || slices.ContainsFunc(plan.StackAggs, named) || slices.ContainsFunc(plan.PresentAggs, named)
}

// firstStage returns the aggregate as hosts execute it, and the nodes that merge
// its states.
func (d *divider) firstStage(a *plan.Aggregate, x *plan.Exchange) (lower, upper plan.Node, err error) {
	stage := *a
	stage.Aggs = slices.Clone(a.Aggs)
	for i := range stage.Aggs {
		if f := &stage.Aggs[i]; f.Fn == "rate" && a.Windowed { // of the window's length
			f.Fn, f.T = "count", types.Bigint
		}
	}
	var keys []int // of the stage: those of a
	for i := range a.Keys {
		keys = append(keys, i)
	}
	if a.Windowed {
		x.Again = plan.PerWindow
		if w := windowOf(a.Input); w != nil && w.Spec.Kind == plan.Session {
			x.Again = plan.PerSession
			if keys, err = d.pieces(a, &stage, x); err != nil {
				return nil, nil, err
			}
		}
	} else if a.Emit.Mode != plan.Final {
		x.Again = map[plan.EmitMode]plan.Again{plan.Every: plan.PerRound, plan.Changes: plan.PerChange}[a.Emit.Mode]
	}
	stageKeys, stageAggs, _ := stage.Stage()
	p, ok := plan.NewPartial(stageKeys, stageAggs, 0)
	if !ok {
		return nil, nil, d.unmerged(a, &stage)
	}
	if a.Confidence > 0 {
		p = plan.NewEstimatedPartial(p, false)
	}
	stage.States, stage.Derived, stage.Out = true, nil, p.Out
	stage.Out.Time = -1

	// The root merges columns, whatever the hosts' expressions for them are.
	merge := &plan.Aggregate{Aggs: slices.Clone(stage.Aggs[len(stage.Aggs)-len(a.Aggs):]), Confidence: a.Confidence, Derived: a.Derived, Out: types.Schema{Time: -1}}
	in := types.Schema{Time: -1}
	column := func(of plan.Expr) plan.Expr {
		at := len(in.Fields)
		in.Fields = append(in.Fields, types.Field{Name: of.String(), Type: of.Type()})
		return &plan.Col{Index: at, Name: of.String(), T: of.Type()}
	}
	for i, k := range a.Keys {
		merge.Keys = append(merge.Keys, column(&plan.Col{Name: a.Out.Fields[i].Name, T: k.Type()}))
	}
	for i := range merge.Aggs {
		f := &merge.Aggs[i]
		f.Filter = nil
		f.Args = slices.Clone(f.Args)
		for k, arg := range f.Args {
			f.Args[k] = column(&plan.Col{Name: arg.String(), T: arg.Type()})
		}
	}
	for i, k := range merge.Keys {
		merge.Out.Fields = append(merge.Out.Fields, types.Field{Name: a.Out.Fields[i].Name, Type: k.Type()})
	}
	for i := range merge.Aggs {
		fields := plan.EstimateFields(a.Out.Fields[len(a.Keys)+i*a.Width()].Name, merge.Aggs[i].T)
		merge.Out.Fields = append(merge.Out.Fields, fields[:a.Width()]...)
	}
	merge.Out.Fields = append(merge.Out.Fields, a.Out.Fields[len(merge.Out.Fields):]...) // of what is derived
	leaf := &plan.Acquire{Stream: plan.FragmentStream, Out: in}
	mergeKeys, mergeAggs, _ := merge.Stage()
	if leaf.Partial, ok = plan.NewPartial(mergeKeys, mergeAggs, 0); !ok {
		return nil, nil, d.unmerged(a, &stage)
	}
	start, end := a.Borders()
	if a.Confidence > 0 {
		var own []plan.Expr // which are not those of a window
		for i, k := range a.Keys {
			if i != start && i != end {
				own = append(own, k)
			}
		}
		leaf.Partial = plan.NewEstimatedPartial(leaf.Partial, plan.ByPlace(own))
	}
	merge.Input = leaf
	// Rows of hosts: pane, keys of the stage, with estimates more keys, states.
	x.Pick = []int{0}
	for _, k := range keys {
		x.Pick = append(x.Pick, 1+k)
	}
	for i := len(p.Out.Fields) - (len(leaf.Partial.Out.Fields) - 1 - len(merge.Keys)); i < len(p.Out.Fields); i++ {
		x.Pick = append(x.Pick, i)
	}
	if a.Windowed {
		x.Start, x.End = 1+keys[start], 1+keys[end]
	}
	return &stage, rates(a, merge), nil
}

// unmerged refuses an aggregate whose states cannot be merged.
func (d *divider) unmerged(a, stage *plan.Aggregate) error {
	for i := range stage.Aggs {
		f := &stage.Aggs[i]
		if _, ok := plan.StateFields(f); !ok {
			at := d.find(a, func(e parser.Expr) bool { return callOf(e, f.Fn) })
			text := f.String()
			if at.Pos.Start >= 0 && at.Pos.Stop <= len(at.Src) && at.Sel != nil {
				text = at.Src[at.Pos.Start:at.Pos.Stop]
			}
			return refusal(at.Pos, at.Src, OwnHint, "the hosts' results of %s cannot be merged", text)
		}
	}
	return d.refuse(a, OwnHint, "the hosts' results cannot be merged")
}

// rates computes the rates of windows, which are merged as counts.
func rates(a, merge *plan.Aggregate) plan.Node {
	if !a.Windowed || !slices.ContainsFunc(a.Aggs, func(f plan.Agg) bool { return f.Fn == "rate" }) {
		return merge
	}
	p := &plan.Project{Input: merge, Out: types.Schema{Fields: slices.Clone(a.Out.Fields), Time: -1}}
	for i, f := range merge.Out.Fields {
		p.Exprs = append(p.Exprs, &plan.Col{Index: i, Name: f.Name, T: f.Type})
	}
	start, end := a.Borders()
	number := func(i int) plan.Expr {
		if p.Exprs[i].Type() == types.Bigint {
			return p.Exprs[i]
		}
		return &plan.Cast{X: p.Exprs[i], T: types.Bigint}
	}
	length := &plan.Call{Fn: "-", Args: []plan.Expr{number(end), number(start)}, T: types.Bigint}
	for i, f := range a.Aggs {
		if f.Fn != "rate" {
			continue
		}
		float := func(x plan.Expr) plan.Expr { return &plan.Cast{X: x, T: types.Double} }
		seconds := &plan.Call{Fn: "/", Args: []plan.Expr{float(length), &plan.Const{V: types.Float(1e9)}}, T: types.Double}
		for part := range min(a.Width(), 1+plan.EstimateHigh) {
			at := len(a.Keys) + i*a.Width() + part
			p.Exprs[at] = &plan.Call{Fn: "/", Args: []plan.Expr{float(p.Exprs[at]), seconds}, T: types.Double}
		}
	}
	return p
}

// windowOf returns the window of an aggregate's groups.
func windowOf(n plan.Node) *plan.Window {
	for {
		switch x := n.(type) {
		case *plan.Window:
			return x
		case *plan.Filter, *plan.Project:
			n = x.Inputs()[0]
		default:
			return nil
		}
	}
}

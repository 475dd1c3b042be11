package plan

import (
	"slices"
	"strings"
	"time"

	"endoscope/planner/types"
)

// Partial is the first stage of an aggregate, to be executed by a source where
// events happen; the Aggregate above merges its output. A source executes all of
// it or none, and may always emit single events besides (as rows of the
// acquisition), for events that it could not aggregate.
//
// A partial row is the state of one group: what was folded in since the previous
// row. A group's states may arrive in any number of rows and in any order.
type Partial struct {
	// Keys are the keys of the aggregate, over the acquisition's Out, without the
	// borders of windows.
	Keys []Expr
	// Aggs are the aggregates, over the acquisition's Out.
	Aggs []Agg
	// Pane, if not 0, divides time into [0, Pane), [Pane, 2·Pane) ... since the epoch:
	// no row has events of two panes. Windows consist of whole panes.
	Pane time.Duration
	// Estimated: the source observes most places only in slices of time. The last keys and
	// aggregates are those of NewEstimatedPartial, and every call is in a partial row.
	Estimated bool
	// ByPlace: an Estimated stage has no other keys than those that the place determines.
	ByPlace bool
	// Out is the schema of partial rows: PaneColumn, the keys, and then StateFields
	// for each aggregate.
	Out types.Schema
}

// PaneColumn is the first column of partial rows, a TIMESTAMP: the beginning of
// their pane, or, without panes, a time not later than that of any of the events.
// It is the rows' event time, to which watermarks apply.
const PaneColumn = "pane"

// NewPartial returns the first stage of an aggregate. ok is false if one of the
// functions is not an aggregate of the language, or merges states itself.
func NewPartial(keys []Expr, aggs []Agg, pane time.Duration) (p *Partial, ok bool) {
	out := types.Schema{Fields: []types.Field{{Name: PaneColumn, Type: types.Timestamp}}}
	for _, k := range keys {
		out.Fields = append(out.Fields, types.Field{Name: k.String(), Type: k.Type()})
	}
	for i := range aggs {
		fs, ok := StateFields(&aggs[i])
		if !ok {
			return nil, false
		}
		out.Fields = append(out.Fields, fs...)
	}
	return &Partial{Keys: keys, Aggs: aggs, Pane: pane, Out: out}, true
}

// NewKernelPartial is NewPartial restricted to aggregates that the kernel can
// compute; ok is false for others.
func NewKernelPartial(keys []Expr, aggs []Agg, pane time.Duration) (p *Partial, ok bool) {
	for i := range aggs {
		if !KernelAggregates(&aggs[i]) {
			return nil, false
		}
	}
	return NewPartial(keys, aggs, pane)
}

// String formats the computation like Aggregate: count(*), sum(duration) by
// function_name per 10s.
func (p *Partial) String() string {
	var parts []string
	if _, aggs := p.Visible(); len(aggs) > 0 {
		parts = append(parts, joinAggs(aggs))
	}
	if len(p.Keys) > 0 {
		parts = append(parts, "by "+joinExprs(p.Keys))
	}
	if p.Pane > 0 {
		parts = append(parts, "per "+formatStd(p.Pane))
	}
	return strings.Join(parts, " ")
}

// Borders returns the indexes of the keys that are a window's start and end; -1
// for those that are not keys.
func (n *Aggregate) Borders() (start, end int) {
	if !n.Windowed {
		return -1, -1
	}
	start = slices.IndexFunc(n.Keys, func(k Expr) bool {
		c, ok := k.(*Col)
		return ok && (c.Name == "window_start" || strings.HasSuffix(c.Name, ".window_start"))
	})
	if start == n.WindowEnd {
		start = -1
	}
	return start, n.WindowEnd
}

// FirstStage returns the acquisition that may emit n's partial rows, and the
// window between them, if there is one; nil if no acquisition may.
func (n *Aggregate) FirstStage() (leaf *Acquire, win *Window) {
	for in := n.Input; ; in = in.Inputs()[0] {
		switch x := in.(type) {
		case *Acquire:
			if x.Partial == nil || n.Windowed != (win != nil) {
				return nil, nil
			}
			return x, win
		case *Window:
			if x.Hold || x.Spec.Kind == Session || win != nil {
				return nil, nil
			}
			win = x
		case *Project:
		default:
			return nil, nil
		}
	}
}

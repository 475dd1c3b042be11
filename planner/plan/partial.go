package plan

import (
	"slices"
	"strings"
	"time"

	"endoscope/planner/types"
)

// Partial is the first stage of an aggregate, to be run by a source where
// events happen; the Aggregate above merges what it gives. A source takes all
// of it or nothing, and may always give single events besides (as rows of the
// acquisition), for those that it could not aggregate.
//
// A partial row is the state of one group: what was folded in since the row
// before. A group's states may come in any number of rows and in any order.
type Partial struct {
	// Keys are the aggregate's, over the acquisition's Out, without the borders
	// of windows.
	Keys []Expr
	// Aggs are the aggregate's, over the acquisition's Out.
	Aggs []Agg
	// Pane, where it is not 0, divides time into [0, Pane), [Pane, 2·Pane) ...
	// since the epoch: no row has events of two panes. Windows consist of whole
	// panes.
	Pane time.Duration
	// Out is the schema of partial rows: PaneColumn, the keys, and then what
	// StateFields says for each aggregate.
	Out types.Schema
}

// PaneColumn is the first column of partial rows, a TIMESTAMP: where their pane
// begins, or, without panes, a time not later than that of any of the events.
// It is the rows' event time: watermarks hold for it.
const PaneColumn = "pane"

// NewPartial makes the first stage of an aggregate. ok
// is false if one of the aggregates has no state that can be sent.
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

// StateFields are the columns, all BIGINT, that hold the state of an aggregate
// in partial rows. n is the number of values folded in; where it is 0 the others
// mean nothing, and the aggregate stays as it was. (The row's group exists all
// the same: its events may have had NULLs only, or failed the FILTER.)
//
//	count, rate        n
//	sum, avg           lo, hi (the sum, 128 bits, two's complement), n
//	min, max           value, n
//	first, last        time (event time, ns since the epoch), value, n
//	stddev, variance   lo, hi (of the sum), n, sq0, sq1, sq2 (Σx², 192 bits,
//	                   unsigned, least significant word first)
//	quantile, median,  bucket (as package operators numbers them), n: how many
//	sketch, histogram  values in that one bucket
//
// ok is false for the other aggregates, for DISTINCT, and for arguments that are
// not integers.
func StateFields(f *Agg) (fields []types.Field, ok bool) {
	if f.Distinct || slices.ContainsFunc(f.Args, func(a Expr) bool { return a.Type().Physical() != types.PhysInt }) {
		return nil, false
	}
	names, ok := stateNames[StateOf(f.Fn)]
	for _, n := range names {
		fields = append(fields, types.Field{Name: n, Type: types.Bigint})
	}
	return fields, ok
}

// StateOf is the aggregate that keeps the same as fn: of STDDEV_STATE it is STDDEV, and
// of FIRST_TIME FIRST.
func StateOf(fn string) string {
	for _, suffix := range []string{StateSuffix, timeSuffix} {
		if of, ok := strings.CutSuffix(fn, suffix); ok {
			return of
		}
	}
	return fn
}

var stateNames = map[string][]string{
	"count":     {"n"},
	"rate":      {"n"},
	"sum":       {"lo", "hi", "n"},
	"avg":       {"lo", "hi", "n"},
	"min":       {"value", "n"},
	"max":       {"value", "n"},
	"first":     {"time", "value", "n"},
	"last":      {"time", "value", "n"},
	"stddev":    {"lo", "hi", "n", "sq0", "sq1", "sq2"},
	"variance":  {"lo", "hi", "n", "sq0", "sq1", "sq2"},
	"quantile":  {"bucket", "n"},
	"median":    {"bucket", "n"},
	"sketch":    {"bucket", "n"},
	"histogram": {"bucket", "n"},
}

// String prints what is computed as Aggregate does: count(*), sum(duration) by
// function_name per 10s.
func (p *Partial) String() string {
	var parts []string
	if len(p.Aggs) > 0 {
		parts = append(parts, joinAggs(p.Aggs))
	}
	if len(p.Keys) > 0 {
		parts = append(parts, "by "+joinExprs(p.Keys))
	}
	if p.Pane > 0 {
		parts = append(parts, "per "+formatStd(p.Pane))
	}
	return strings.Join(parts, " ")
}

// Borders are those of the keys that are a window's start and end; -1 where
// they are not among them.
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

// FirstStage is the acquisition that may give n partial rows, and the window
// between them, if there is one; nil if no acquisition may.
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

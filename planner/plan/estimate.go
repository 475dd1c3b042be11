package plan

import (
	"slices"

	"endoscope/planner/types"
)

// Budget limits what the observation of functions may cost their program (WITHIN
// OVERHEAD). A source with a budget observes most functions only in slices of time, and
// states of a first stage are then also by place (the probed function) and by replicate (the
// random group of its slices); estimates are computed of them (package operators/estimate).
type Budget struct {
	// Share is the share of the processor time that the program uses, or of Floor.
	Share float64
	// Floor is the processor time that a program is taken to use at least, in processors.
	Floor float64
}

// Samples reports whether an acquisition within an overhead gives rows: those of a sample of the
// calls.
func (a *Acquire) Samples() bool { return a.Budget != nil && a.Partial == nil }

// The columns of an aggregate in the output of an [Aggregate] with estimates: the value,
// its bounds (NULL: there is none), whether it is exact, and the share of the calls that
// was seen.
const (
	EstimateValue = iota
	EstimateLow
	EstimateHigh
	EstimateExact
	EstimateShare
	EstimateColumns
)

// LowBound and HighBound are the functions of the bounds of an estimate.
const LowBound, HighBound = "low", "high"

// EstimateType returns the type of a column of an aggregate of type t.
func EstimateType(column int, t types.Type) types.Type {
	switch column {
	case EstimateExact:
		return types.Boolean
	case EstimateShare:
		return types.Double
	}
	return t
}

// EstimateFields returns the columns of an aggregate called name, of type t.
func EstimateFields(name string, t types.Type) []types.Field {
	var fields []types.Field
	for i, of := range []string{"", LowBound, HighBound, "exact", "share"} {
		f := types.Field{Name: name, Type: EstimateType(i, t)}
		if of != "" {
			f.Name = of + "(" + name + ")"
		}
		fields = append(fields, f)
	}
	return fields
}

// Width returns the number of output columns of each aggregate.
func (n *Aggregate) Width() int {
	if n.Confidence > 0 {
		return EstimateColumns
	}
	return 1
}

// TwoBounds reports whether an estimate of an aggregate can have bounds on both sides,
// as a number can.
func TwoBounds(a *Agg) bool {
	return !a.Distinct && !slices.Contains([]string{"min", "max", "first", "last", "topk", "histogram"}, a.Fn)
}

// ByValue reports whether an estimate of an aggregate needs the number of calls for each value
// of its argument.
func ByValue(a *Agg) bool { return a.Distinct || a.Fn == "topk" }

// Stage returns the keys and aggregates whose states the aggregate merges. With estimates the
// arguments of aggregates by value are keys behind its own, and the aggregate counts calls; of
// tells which of the keys behind its own is the argument.
func (n *Aggregate) Stage() (keys []Expr, aggs []Agg, of map[int]int) {
	if n.Confidence == 0 {
		return n.Keys, n.Aggs, nil
	}
	keys, aggs, of = slices.Clone(n.Keys), slices.Clone(n.Aggs), map[int]int{}
	for i := range aggs {
		f := &aggs[i]
		if !ByValue(f) {
			continue
		}
		of[i] = slices.IndexFunc(keys[len(n.Keys):], func(k Expr) bool { return k.String() == f.Args[0].String() })
		if of[i] < 0 {
			of[i] = len(keys) - len(n.Keys)
			keys = append(keys, f.Args[0])
		}
		*f = Agg{Fn: "count", Star: true, Filter: f.Filter, T: types.Bigint}
	}
	return keys, aggs, of
}

// additive are the aggregates that are functions of sums over the calls.
var additive = []string{"count", "rate", "sum", "avg", "stddev", "variance"}

// derivable are the functions of numbers that Aggregate.Derived may have.
var derivable = []string{"+", "-", "*", "/", "neg", "abs", "sqrt", "to_us", "to_ms", "to_s", "to_min"}

// Derives reports whether an expression over aggregates, whose columns are indexes of these,
// can be estimated with an interval of its own.
func Derives(x Expr, aggs []Agg) bool {
	switch e := x.(type) {
	case *Col:
		return e.Index >= 0 && e.Index < len(aggs) && slices.Contains(additive, aggs[e.Index].Fn) && !aggs[e.Index].Distinct && e.T.Numeric()
	case *Const:
		return !e.V.IsNull && e.V.Type.Numeric()
	case *Cast:
		return e.T.Numeric() && Derives(e.X, aggs)
	case *Call:
		return slices.Contains(derivable, e.Fn) && !slices.ContainsFunc(e.Args, func(a Expr) bool { return !Derives(a, aggs) })
	}
	return false
}

// The last keys of the partial rows of a source with a budget (Partial.Estimated): the place,
// and the replicate, or ExactReplicate for calls of places that were observed all the time.
const (
	PlaceKey       = "place"
	ReplicateKey   = "replicate"
	HiddenKeys     = 2
	ExactReplicate = -1
	// Replicates is the number of random groups of slices, numbered from 0.
	Replicates = 16
)

// The last aggregates of such rows. The first counts events. The others are the exposure of
// a place, which rows without events carry: the progress seen in the slices of the
// replicate, in ns, and how many calls seen in them did not end in time; and in rows with
// ExactReplicate the progress in all the time in which the place was observed in slices,
// that times the slowdown and times the speedup of its exposure (package
// operators/estimate). They add up like counts.
const (
	SeenAgg = 1 + iota
	WholeAgg
	SlowAgg
	FastAgg
	CensoredAgg
	HiddenAggs
)

// NewEstimatedPartial returns the first stage of an aggregate whose source has a budget.
// byPlace says whether the place of an event determines its group (ByPlace).
func NewEstimatedPartial(p *Partial, byPlace bool) *Partial {
	keys, aggs := slices.Clone(p.Keys), slices.Clone(p.Aggs)
	for _, name := range []string{PlaceKey, ReplicateKey} {
		keys = append(keys, &Col{Index: -1, Name: name, T: types.Bigint}) // no column of the rows
	}
	for range HiddenAggs {
		aggs = append(aggs, Agg{Fn: "count", Star: true, T: types.Bigint})
	}
	q, _ := NewPartial(keys, aggs, p.Pane) // p could be made
	q.Estimated, q.ByPlace = true, byPlace
	return q
}

// ByPlace reports whether the place of an event determines all keys of its group.
func ByPlace(keys []Expr) bool {
	return !slices.ContainsFunc(keys, func(k Expr) bool {
		c, ok := k.(*Col)
		return !ok || !slices.Contains(SelectColumns, c.Name)
	})
}

// Visible returns the keys and aggregates of p that the statement has.
func (p *Partial) Visible() ([]Expr, []Agg) {
	if !p.Estimated {
		return p.Keys, p.Aggs
	}
	return p.Keys[:len(p.Keys)-HiddenKeys], p.Aggs[:len(p.Aggs)-HiddenAggs]
}

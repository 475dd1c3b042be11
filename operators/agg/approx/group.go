package approx

import (
	"math"
	"slices"

	"endoscope/operators/agg/fold"
	"endoscope/operators/estimate"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Member is the state of a group at a place, in a replicate.
type Member struct {
	State     uint32        // index of the state in the accumulators
	Place     int           // index in Places
	Replicate int           // plan.ExactReplicate: seen while the place was observed all the time
	Values    []types.Value // of the arguments of aggregates by value (plan.ByValue)
}

// Group is the states of a group.
type Group struct {
	Members    []Member
	Places     *Places
	Confidence float64
}

// Result is an aggregate of a group. Bounds that do not exist are infinite.
type Result struct {
	estimate.Interval
	Null bool // there were no values
}

// Exact reports whether all places of the group were observed all the time. Members without
// events say of a place that its events would be in the group.
func (g *Group) Exact() bool {
	if g.Places.Loose && g.Places.sliced {
		return false
	}
	for _, m := range g.Members {
		if g.Places.list[m.Place].Whole > 0 {
			return false
		}
	}
	return true
}

// Share returns the share of the group's events that was seen, NaN where it is not known how many there
// were. events counts them.
func (g *Group) Share(events fold.Moments) float64 {
	seen := 0.0
	for _, m := range g.Members {
		n, _, _ := events.Moments(m.State)
		seen += n
	}
	all := g.total(func(m Member) float64 { n, _, _ := events.Moments(m.State); return n }).Estimate
	switch {
	case all > seen:
		return seen / all
	case g.Exact():
		return 1
	}
	return math.NaN() // what was seen is only a bound
}

// Events returns how many events the group has.
func (g *Group) Events(events fold.Moments) (n float64) {
	for _, m := range g.Members {
		k, _, _ := events.Moments(m.State)
		n += k
	}
	return n
}

// Aggregate estimates an aggregate from the states in acc. elapsed is the time for RATE, ns.
func (g *Group) Aggregate(f *plan.Agg, acc fold.Accumulator, elapsed int64) Result {
	switch acc := acc.(type) {
	case fold.Distribution:
		return g.quantile(f, acc)
	case fold.Extreme:
		return g.extreme(acc, f.Fn == "max")
	case fold.Moments:
		return g.moments(f.Fn, acc, elapsed)
	}
	return Result{Null: true} // not reached: the planner refuses others
}

// moments estimates a function of numbers, sums, and sums of squares.
func (g *Group) moments(fn string, acc fold.Moments, elapsed int64) Result {
	count := func(m Member) float64 { n, _, _ := acc.Moments(m.State); return n }
	sum := func(m Member) float64 { _, s, _ := acc.Moments(m.State); return s }
	switch fn {
	case "count":
		return Result{Interval: g.calls(count)}
	case "rate":
		i, seconds := g.calls(count), float64(elapsed)/1e9
		return Result{Interval: estimate.Interval{Low: i.Low / seconds, Estimate: i.Estimate / seconds, High: i.High / seconds}, Null: elapsed <= 0}
	}
	if g.sum(count) == 0 {
		return Result{Null: true}
	}
	if fn == "sum" && !slices.ContainsFunc(g.Members, func(m Member) bool { return sum(m) < 0 }) {
		return Result{Interval: g.total(sum)}
	}
	compute := func(of weighing) float64 { return of.aggregate(fn, acc, elapsed) }
	if fn == "sum" {
		return g.scaled(compute)
	}
	r := g.value(compute)
	if fn == "stddev" || fn == "variance" {
		r.Low = max(r.Low, 0)
	}
	return r
}

// sum adds up a quantity of the members.
func (g *Group) sum(of func(Member) float64) (sum float64) {
	for _, m := range g.Members {
		sum += of(m)
	}
	return sum
}

// calls estimates the number of calls. Those that did not end in time may belong to the group
// or not: the upper bound has all of them.
func (g *Group) calls(count func(Member) float64) estimate.Interval {
	if !g.censored() {
		return g.total(count)
	}
	i := g.estimate(count, nil)
	i.High = max(i.High, g.estimate(count, g.Places.censored).High)
	return i
}

// total estimates the total of a quantity that is not negative. Where calls are missing that
// took long, it has no upper bound.
func (g *Group) total(of func(Member) float64) estimate.Interval {
	i := g.estimate(of, nil)
	if g.censored() {
		i.High = math.Inf(1)
	}
	return i
}

// estimate estimates the total of a quantity, with more of it at places.
func (g *Group) estimate(of func(Member) float64, more map[int]*[estimate.Replicates]float64) estimate.Interval {
	var t estimate.Total
	seen := map[int]*[estimate.Replicates]float64{}
	for _, m := range g.Members {
		if m.Replicate < 0 {
			t.AddExact(of(m))
		}
		if g.Places.list[m.Place].Whole > 0 && seen[m.Place] == nil {
			seen[m.Place] = &[estimate.Replicates]float64{}
		}
		if m.Replicate >= 0 {
			if seen[m.Place] == nil { // seen in slices, whose exposure has not come
				return estimate.Interval{Low: g.sum(of), Estimate: g.sum(of), High: math.Inf(1)}
			}
			seen[m.Place][m.Replicate] += of(m)
		}
	}
	for place, s := range seen {
		if m := more[place]; m != nil {
			for r := range s {
				s[r] += m[r]
			}
		}
		t.Add(&g.Places.list[place], s)
	}
	i := t.Interval(g.Confidence)
	i.Low = max(i.Low, g.sum(of))
	if len(g.Members) == 0 && !g.Exact() {
		i.High = math.Inf(1)
	}
	return i
}

// censored reports whether calls of the group are missing that took long.
func (g *Group) censored() bool {
	return slices.ContainsFunc(g.Members, func(m Member) bool { return g.Places.censored[m.Place] != nil })
}

// weighing returns the weighted sum of a quantity over the members.
type weighing func(of func(Member) float64) float64

// value estimates a function of weighted sums.
func (g *Group) value(compute func(weighing) float64) Result {
	if g.Exact() {
		return g.result(estimate.Exact(compute(g.sum)))
	}
	var found [estimate.Replicates]bool
	for _, m := range g.Members {
		if m.Replicate >= 0 {
			found[m.Replicate] = true
		}
	}
	r := g.result(estimate.Value(g.Places.list, &found, g.Confidence, func(w estimate.Weights) float64 {
		return compute(func(of func(Member) float64) (sum float64) {
			for _, m := range g.Members {
				weight := 1.0
				if m.Replicate >= 0 {
					weight = w(m.Place, m.Replicate)
				}
				sum += weight * of(m)
			}
			return sum
		})
	}))
	if g.censored() {
		r.Low, r.High = math.Inf(-1), math.Inf(1)
	}
	return r
}

// result returns an interval, or that there is no value.
func (g *Group) result(i estimate.Interval) Result {
	return Result{Interval: i, Null: math.IsNaN(i.Estimate)}
}

// extreme returns the smallest or the largest value seen, which bounds the true one.
func (g *Group) extreme(acc fold.Extreme, largest bool) Result {
	r := Result{Null: true}
	for _, m := range g.Members {
		v, ok := acc.Best(m.State)
		if ok && (r.Null || (v > r.Estimate) == largest) {
			r.Interval, r.Null = estimate.Exact(v), false
		}
	}
	switch {
	case g.Exact():
	case largest:
		r.High = math.Inf(1)
	default:
		r.Low = math.Inf(-1)
	}
	return r
}

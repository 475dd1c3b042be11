package approx

import (
	"cmp"
	"math"
	"slices"

	"endoscope/operators/agg/fold"
	"endoscope/operators/estimate"
	"endoscope/planner/types"
)

// byValue returns the members of the group with calls that acc counts, by their value with a
// number (plan.ByValue), in the order of the values. NULL is none.
func (g *Group) byValue(number int, acc fold.Moments) (list []Group) {
	of := func(m Member) types.Value { return m.Values[number] }
	var members []Member
	for _, m := range g.Members {
		if n, _, _ := acc.Moments(m.State); n > 0 && !of(m).IsNull {
			members = append(members, m)
		}
	}
	slices.SortStableFunc(members, func(a, b Member) int { return compare(of(a), of(b)) })
	for from := 0; from < len(members); {
		to := from + 1
		for to < len(members) && compare(of(members[from]), of(members[to])) == 0 {
			to++
		}
		list = append(list, Group{Members: members[from:to], Places: g.Places, Confidence: g.Confidence})
		from = to
	}
	return list
}

// compare compares values of one type.
func compare(a, b types.Value) int {
	if a.Type.Unsigned() {
		return cmp.Compare(uint64(a.I), uint64(b.I))
	}
	return cmp.Or(cmp.Compare(a.I, b.I), cmp.Compare(a.F, b.F), cmp.Compare(a.S, b.S))
}

// Distinct returns how many different values were seen: there may be more.
func (g *Group) Distinct(number int, acc fold.Moments) Result {
	r := Result{Interval: estimate.Exact(float64(len(g.byValue(number, acc))))}
	if !g.Exact() {
		r.High = math.Inf(1)
	}
	return r
}

// Top estimates how many calls there are of each value, and returns the n most frequent ones of
// those that were seen.
func (g *Group) Top(number, n int, acc fold.Moments) (list []Counts) {
	exact := g.Exact()
	for _, of := range g.byValue(number, acc) {
		count := func(m Member) float64 { n, _, _ := acc.Moments(m.State); return n }
		c := Counts{[]types.Value{of.Members[0].Values[number]}, estimate.Exact(of.sum(count))}
		if !exact {
			c.Count = of.total(count)
		}
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b Counts) int { return cmp.Compare(b.Count.Estimate, a.Count.Estimate) })
	return list[:min(n, len(list))]
}

// Edge returns the state with the earliest or the latest call that was seen.
func (g *Group) Edge(acc fold.Timed, last bool) (state uint32, found bool) {
	var at int64
	for _, m := range g.Members {
		t, ok := acc.When(m.State)
		if ok && (!found || t != at && (t > at) == last) {
			state, at, found = m.State, t, true
		}
	}
	return state, found
}

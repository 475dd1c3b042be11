package fleet

import (
	"fmt"
	"math/bits"

	"endoscope/operators/batch"
	"endoscope/operators/estimate"
	"endoscope/planner/plan"
)

// looked has, of the functions of a host that are observed in slices, the replicates that have
// had slices, as bits.
type looked map[int32]uint32

// estimated reports whether hosts send states by place and replicate, within an overhead.
func (u *upper) estimated() bool {
	p := u.states()
	return p != nil && p.Estimated
}

// ofHost returns states with the places of a host told apart from those of the others, and
// records which places had slices. It releases the batch.
//
// Each host keeps its overhead by itself, and its slices do not depend on those of others: the
// estimates of its places add up with those of other hosts, as do their variances.
func (u *upper) ofHost(b *batch.Batch, p *part) *batch.Batch {
	states := u.states()
	at := u.Exchange.Pick[len(states.Keys)-1:] // the pane, the keys without these two, and these two
	place, replicate := at[0], at[1]
	whole, seen := u.hidden(plan.WholeAgg), u.hidden(plan.SeenAgg)
	if p.looked == nil {
		p.looked = looked{}
	}
	cols := append([]batch.Column(nil), b.Cols...)
	places := append([]int64(nil), cols[place].Int...)
	for i := range b.Len() {
		row := b.Row(i)
		function := int32(places[row])
		switch r := cols[replicate].Int[row]; {
		case r == plan.ExactReplicate && cols[whole].Int[row] > 0:
			p.looked[function] |= 0
		case r >= 0 && r < plan.Replicates && cols[seen].Int[row] > 0:
			p.looked[function] |= 1 << r
		}
		// Distinct places of one host remain distinct, and those of two hosts are different
		// but by chance.
		places[row] = int64(bits.RotateLeft64(uint64(places[row])*0x9e3779b97f4a7c15, 31) ^ uint64(p.number)*0xbf58476d1ce4e5b9)
	}
	cols[place].Int = places
	with := b.Derive(nil, cols)
	b.Release()
	return with
}

// hidden returns the column, in the rows of hosts, of one of the last aggregates of states.
func (u *upper) hidden(i int) int {
	pick := u.Exchange.Pick
	return pick[len(pick)-plan.HiddenAggs+i]
}

// unlooked returns the line of the footer about hosts of which functions had too few slices; ""
// if there are none. Groups with calls of these functions have bounds on one side only.
func unlooked(parts []*part) string {
	var names []string
	for _, p := range parts {
		n := 0
		for _, replicates := range p.looked {
			if bits.OnesCount32(replicates) < estimate.LeastSlices {
				n++
			}
		}
		if n > 0 {
			names = append(names, fmt.Sprintf("%s (%d of %d functions in slices)", p.name, n, len(p.looked)))
		}
	}
	if names == nil {
		return ""
	}
	return "hosts with too few slices for an interval: " + some(names)
}

package uprobe

import "endoscope/probes/bpf"

// generations is how many divisions of a source are told apart (counters.h). Of older
// ones the calls that are still under way are those of the oldest.
const generations = len(bpf.FunctionCounters{}.Armed)

// awaited is how many calls had their return awaited so far, and how many returned.
func awaited(c *bpf.FunctionCounters) (armed, returned uint64) {
	for g := range generations {
		armed += c.Armed[g]
		returned += c.Returned[g]
	}
	return armed, returned
}

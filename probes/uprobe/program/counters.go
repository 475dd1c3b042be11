package program

import "endoscope/probes/bpf"

// Generations is how many divisions of a source are told apart (counters.h). Of older
// ones the calls that are still under way are those of the oldest.
const Generations = len(bpf.FunctionCounters{}.Armed)

// Awaited is how many calls had their return awaited so far, and how many returned.
func Awaited(c *bpf.FunctionCounters) (armed, returned uint64) {
	for g := range Generations {
		armed += c.Armed[g]
		returned += c.Returned[g]
	}
	return armed, returned
}

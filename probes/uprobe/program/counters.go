package program

import "endoscope/probes/bpf"

// Generations is how many divisions of a source are distinguished (counters.h). Calls of
// older divisions that are still under way are attributed to the oldest one.
const Generations = len(bpf.FunctionCounters{}.Armed)

// Awaited returns the number of calls whose return was awaited so far, and how many of
// them returned.
func Awaited(c *bpf.FunctionCounters) (armed, returned uint64) {
	for g := range Generations {
		armed += c.Armed[g]
		returned += c.Returned[g]
	}
	return armed, returned
}

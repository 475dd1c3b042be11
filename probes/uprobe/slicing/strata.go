package slicing

import "time"

const (
	// MostDilation is how much the probes of a group may slow the program, unless it is one
	// function or rounds would take too long; and greatest how much then.
	MostDilation, greatest = 0.025, 0.4
	// mostTogether bounds the functions of a group: attaching each takes microseconds.
	mostTogether = 256

	// LeastPrice and MostPrice bound the price of a hit in a program, as multiples of that
	// in an empty loop: 0.5 to 1.3 us were measured for 0.6.
	LeastPrice, MostPrice = 0.8, 2.2
)

// The length of slices, and the shortest time between two.
const (
	longest  = 4 * time.Millisecond
	shortest = 400 * time.Microsecond
	Turn     = 30 * time.Millisecond
)

// Attaching is what a slice is assumed to cost beside its hits, ns, before that is known.
const Attaching = 2.5e6

// Function is what is known of the calls of a function.
type Function struct {
	Price float64 // of a call, ns
	Rate  float64 // calls for each ns of the program's progress
}

// Dilation returns by how much the probe of a function slows the program.
func (f Function) Dilation() float64 { return f.Rate * f.Price }

// Group is functions that are observed together.
type Group struct {
	Functions []int
	Length    time.Duration
	Dilation  float64
}

// Pack divides functions, sorted by their dilation, into groups. Larger groups make results
// less certain and rounds shorter: dilations of groups are as small as a round allows that
// costs at most some ns, where a slice costs fixed beside its hits. cpus is how many
// processors the program uses.
func Pack(fs []Function, which []int, cpus, fixed, atMost float64) []Group {
	for most := MostDilation; ; most *= 2 {
		groups, cost := pack(fs, which, most), 0.0
		for i := range groups {
			cost += fixed + groups[i].Hits(cpus)
		}
		if cost <= atMost || most > greatest/2 {
			return groups
		}
	}
}

func pack(fs []Function, which []int, most float64) (groups []Group) {
	for _, i := range which {
		d := fs[i].Dilation()
		last := len(groups) - 1
		if last < 0 || groups[last].Dilation+d > most || len(groups[last].Functions) == mostTogether {
			groups = append(groups, Group{})
			last++
		}
		g := &groups[last]
		g.Functions, g.Dilation = append(g.Functions, i), g.Dilation+d
	}
	for i := range groups {
		g := &groups[i]
		g.Length = longest
		if g.Dilation > MostDilation {
			g.Length = max(shortest, time.Duration(float64(longest)*MostDilation/g.Dilation))
		}
	}
	return groups
}

// Hits returns what the hits of a slice of a group are expected to cost, in ns, if the program
// uses a number of processors.
func (g *Group) Hits(cpus float64) float64 {
	return min(g.Dilation, 1) * max(cpus, 1) * float64(g.Length)
}

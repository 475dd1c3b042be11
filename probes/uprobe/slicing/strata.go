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
	usual    = 4 * time.Millisecond
	shortest = 400 * time.Microsecond
	longest  = 100 * time.Millisecond
	Turn     = 30 * time.Millisecond
)

// hitsShare is what the hits of a slice cost at least of what it costs beside, if it can be
// longer for that: what is seen then costs less.
const hitsShare = 0.25

// Attaching is what a slice is assumed to cost beside its hits, ns, before that is known.
const Attaching = 2.5e6

// Function is what is known of the calls of a function.
type Function struct {
	Price float64 // of a call, ns
	Rate  float64 // calls for each ns of the program's progress
	Waits bool    // a call has been waited for in vain
}

// Dilation returns by how much the probe of a function slows the program.
func (f Function) Dilation() float64 { return f.Rate * f.Price }

// Group is functions that are observed together.
type Group struct {
	Functions []int
	Length    time.Duration
	Dilation  float64
}

// Load is how many processors a program uses, without probes, and how many it is taken to use
// at least. One that is nearly idle is not slowed by what its probes take of little time.
type Load struct{ CPUs, Floor float64 }

// scale is the part of a dilation that counts.
func (l Load) scale() float64 { return min(max(l.CPUs/max(l.Floor, 1e-9), leastScale), 1) }

// leastScale is that of an idle program: it may not remain so.
const leastScale = 0.01

// Changed reports whether groups that were made for a load are not good for another.
func (l Load) Changed(o Load) bool {
	a, b := l.scale(), o.scale()
	return max(a, b) > 4*min(a, b)
}

// Pack divides functions, sorted by their dilation, into groups. Larger groups make results
// less certain and rounds shorter: dilations of groups are as small as a round allows that
// costs at most some ns, where a slice costs fixed beside its hits.
func Pack(fs []Function, which []int, load Load, fixed, atMost float64) []Group {
	for most := MostDilation; ; most *= 2 {
		groups, cost := pack(fs, which, most, load.scale()), 0.0
		for i := range groups {
			groups[i].extend(load.CPUs, fixed)
			cost += fixed + groups[i].Hits(load.CPUs)
		}
		if cost <= atMost || most > greatest/2 {
			return groups
		}
	}
}

// Whole returns the group of functions whose calls are a sequence, which are observed together:
// in slices as long as their hits cost what a slice costs beside them.
func Whole(fs []Function, which []int, load Load, fixed float64) Group {
	g := Group{Functions: which, Length: longest}
	for _, i := range which {
		g.Dilation += load.scale() * fs[i].Dilation()
	}
	if hits := g.Hits(load.CPUs); hits > fixed {
		g.Length = max(time.Duration(float64(longest)*fixed/hits), shortest)
	}
	return g
}

func pack(fs []Function, which []int, most, scale float64) (groups []Group) {
	for _, i := range which {
		d := scale * fs[i].Dilation()
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
		g.Length = usual
		if g.Dilation > MostDilation {
			g.Length = max(shortest, time.Duration(float64(usual)*MostDilation/g.Dilation))
		}
	}
	return groups
}

// extend makes slices longer whose hits cost little.
func (g *Group) extend(cpus, fixed float64) {
	if hits := g.Hits(cpus); hits < hitsShare*fixed {
		g.Length = min(time.Duration(float64(g.Length)*hitsShare*fixed/max(hits, 1)), longest)
	}
}

// Hits returns what the hits of a slice of a group are expected to cost, in ns, if the program
// uses a number of processors.
func (g *Group) Hits(cpus float64) float64 {
	return min(g.Dilation, 1) * max(cpus, 1) * float64(g.Length)
}

package slicing

import (
	"fmt"
	"time"
)

// Total is what a query with a budget has spent, for its footer. Costs are in ns of processor
// time.
type Total struct {
	Share float64       // that is allowed
	Used  float64       // by the program, without probes; at least by the floor
	Took  time.Duration // from the first function that was attached on

	Probes    float64 // their hits
	Attaching float64 // functions that are observed all the time
	Slicing   float64 // attaching, reading and detaching slices
	Upkeep    float64 // what else the engine has used
	Prepared  float64 // before anything was attached

	Always, Sliced, Slices int
	Attached               int           // how often a function was attached to be observed all the time
	Before                 time.Duration // in which functions were attached before the query began
}

// tolerance is by how much an overhead may exceed what is allowed without a remark.
const tolerance = 1.05

// Remarks returns the lines for the footer.
func (t *Total) Remarks() []string {
	percent := func(ns float64) float64 { return 100 * ns / max(t.Used, 1) }
	all := t.Probes + t.Attaching + t.Slicing + t.Upkeep
	text := fmt.Sprintf("overhead %.2g %% of the program's CPU time, of %.4g %% allowed (%.2g %% by probes, %.2g %% by attaching, %.2g %% for slices, %.2g %% by the engine's upkeep): %d functions were observed all the time, %d in slices (%d were taken); it began after %.2g s of attaching; preparing it took %.2g s of CPU time before",
		percent(all), 100*t.Share, percent(t.Probes), percent(t.Attaching), percent(t.Slicing), percent(t.Upkeep), t.Always, t.Sliced, t.Slices, t.Before.Seconds(), t.Prepared/1e9)
	lines := []string{text}
	if all > tolerance*t.Share*t.Used {
		lines = append(lines, t.excess(all-t.Share*t.Used))
	}
	return lines
}

// excess says what took most of an overhead that is exceeded by some ns, and why.
func (t *Total) excess(ns float64) string {
	most, why := t.Upkeep, fmt.Sprintf("the engine's upkeep, %.2g ms each second", t.Upkeep/1e6/t.Took.Seconds())
	if t.Attaching > most {
		most, why = t.Attaching, fmt.Sprintf("attaching, once %.2g ms for %s", t.Attaching/1e6, functions(t.Attached))
	}
	if t.Slicing > most {
		most, why = t.Slicing, fmt.Sprintf("attaching and detaching for slices, %.2g ms for each", t.Slicing/1e6/float64(max(t.Slices, 1)))
	}
	if t.Probes > most {
		why = "the calls of probed functions, whose rate rose"
	}
	return fmt.Sprintf("the overhead exceeded what is allowed by %.2g ms in %.2g s, mostly by %s; %.4g %% of this program's CPU time is %.2g ms each second",
		ns/1e6, t.Took.Seconds(), why, 100*t.Share, t.Share*t.Used/1e6/t.Took.Seconds())
}

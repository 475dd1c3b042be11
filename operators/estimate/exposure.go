package estimate

// Replicates is the number of random groups of slices.
const Replicates = 16

// LeastSlices is the smallest number of replicates that have seen something from which an
// interval is computed.
const LeastSlices = 5

// An Exposure says how much of the activity at one place was seen.
type Exposure struct {
	// Whole is the progress of the target in the time that the estimate is for, outside
	// the time in which the place was observed without interruption.
	Whole float64
	// Seen is the progress within the slices of each replicate.
	Seen [Replicates]float64
	// Slowdown is the largest share of its progress that the target may have lost in the
	// slices beyond what Seen accounts for: 0.02 if hits may have been 2 % fewer for each
	// unit of Seen than they would have been without probes.
	Slowdown float64
	// Speedup is the largest share by which the progress in the slices may be more than
	// Seen: 0.02 if hits may have been 2 % more for each unit of Seen than they would have
	// been without probes.
	Speedup float64
}

// Add adds a slice to a replicate: number is that of the slice at its place.
func (e *Exposure) Add(number int, progress float64) {
	e.Seen[number%Replicates] += progress
}

// Merge adds the exposure of the same place in another time, or on another host.
func (e *Exposure) Merge(o *Exposure) {
	if whole := e.Whole + o.Whole; whole > 0 {
		e.Slowdown = (e.Slowdown*e.Whole + o.Slowdown*o.Whole) / whole
		e.Speedup = (e.Speedup*e.Whole + o.Speedup*o.Whole) / whole
	}
	e.Whole += o.Whole
	for r := range e.Seen {
		e.Seen[r] += o.Seen[r]
	}
}

// Looked reports whether enough replicates have slices for an interval, if something was seen
// in them.
func (e *Exposure) Looked() bool {
	n := 0
	for _, x := range e.Seen {
		if x > 0 {
			n++
		}
	}
	return n >= LeastSlices
}

// all is the replicate that is left out where none is.
const all = -1

// weight returns by how much a hit counts if the slices of one replicate are left out:
// the inverse of the share that was seen; 0 if nothing was.
func (e *Exposure) weight(without int) float64 {
	seen := 0.0
	for r, x := range e.Seen {
		if r != without {
			seen += x
		}
	}
	if seen <= 0 {
		return 0
	}
	return e.Whole / seen
}

// Share returns how much of the progress was seen, between 0 and 1.
func (e *Exposure) Share() float64 {
	if w := e.weight(all); w > 0 {
		return min(1/w, 1)
	}
	return 0
}

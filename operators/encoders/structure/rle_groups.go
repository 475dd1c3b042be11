package structure

import (
	"strconv"

	"endoscope/operators/encoders"
)

// MaxGroup is the largest number of runs in a repeated group.
const MaxGroup = 64

// group is N repetitions of the runs from an index on; N = 1 is a single run.
type group struct {
	runs []Run
	n    int64
}

// groups finds direct repetitions: at each position, the group of at most longest runs
// whose repetition covers most, and of those the shortest.
func (e *RLE) groups(runs []Run, longest int) []group {
	var found []group
	for len(runs) > 0 {
		best := group{runs[:1], 1}
		covered := 0
		for l := 2; l <= longest && 2*l <= len(runs); l++ {
			n := 1
			for at := l; at+l <= len(runs) && e.same(runs[at:at+l], runs[:l]); at += l {
				n++
			}
			if n > 1 && n*l > covered {
				best, covered = group{runs[:l], int64(n)}, n*l
			}
		}
		runs = runs[max(covered, 1):]
		found = append(found, best)
	}
	return found
}

// same reports whether two lists of runs have the same text form.
func (e *RLE) same(x, y []Run) bool {
	for i := range x {
		long := e.cutoff > 0 && x[i].N > e.cutoff && y[i].N > e.cutoff
		if x[i].Symbol != y[i].Symbol || x[i].N != y[i].N && !long {
			return false
		}
	}
	return true
}

// appendGroup appends 3:( A 2:B ), or ( A 2:B )* for groups repeated more often than the
// cutoff.
func (e *RLE) appendGroup(b []byte, g group) []byte {
	if g.n == 1 {
		return e.appendRuns(b, g.runs)
	}
	long := e.cutoff > 0 && g.n > e.cutoff
	if !long {
		b = append(strconv.AppendInt(b, g.n, 10), ':')
	}
	b = append(e.appendRuns(append(b, "( "...), g.runs), " )"...)
	if long {
		b = append(b, '*')
	}
	return b
}

func (e *RLE) appendRuns(b []byte, runs []Run) []byte {
	for i, r := range runs {
		if i > 0 {
			b = append(b, ' ')
		}
		b = appendRun(b, r.N, e.cutoff, func(b []byte) []byte { return encoders.AppendName(b, e.names, r.Symbol) })
	}
	return b
}

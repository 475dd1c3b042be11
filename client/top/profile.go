package top

import (
	"math"
	"slices"
	"strings"
	"time"

	"endoscope/planner/types"
)

// memory is the time after which a stack sample counts half.
const memory = 8 * time.Second

// key identifies a function.
type key struct{ name, module string }

// share is the time in a function, in seconds per second, by samples.
type share struct {
	total float64
	self  float64 // wanting a CPU
	own   bool    // a function of the program, not of the system
	paths map[string]float64
}

// profile adds up stack samples, of which older ones count less.
type profile struct {
	shares  map[key]*share
	weight  float64 // of the seconds added
	cpu     float64
	running int64 // samples of threads that want a CPU, so far
	threads int
	samples float64
}

// sampled is one row of the samples of a second.
type sampled struct {
	thread int64
	stack  []types.Value // frames, leaf first
	runs   bool          // it has a CPU or wants one
	n      int64
}

// add adds the samples of one second.
func (p *profile) add(rows []sampled) {
	if p.shares == nil {
		p.shares = map[key]*share{}
	}
	snapshots := map[int64]int64{} // by thread
	for _, r := range rows {
		snapshots[r.thread] += r.n
	}
	most := int64(1)
	for _, n := range snapshots {
		most = max(most, n)
	}
	p.decay()
	p.threads = len(snapshots)
	for _, r := range rows {
		p.addStack(r, float64(r.n)/float64(most))
		p.samples += float64(r.n)
	}
}

// decay reduces the weight of what was added before, by one second.
func (p *profile) decay() {
	k := math.Exp2(-1 / memory.Seconds())
	p.weight = p.weight*k + 1
	p.cpu *= k
	p.samples *= k
	for name, s := range p.shares {
		s.total *= k
		s.self *= k
		for path := range s.paths {
			if s.paths[path] *= k; s.paths[path] < 1e-4 {
				delete(s.paths, path)
			}
		}
		if s.total < 1e-4 {
			delete(p.shares, name)
		}
	}
}

// addStack adds the frames of a stack, each function once.
func (p *profile) addStack(r sampled, seconds float64) {
	if r.runs {
		p.running += r.n
		p.cpu += seconds
	}
	var seen []key
	for i, f := range r.stack {
		fields, _ := f.A.([]types.Value)
		if len(fields) < 3 || fields[0].IsNull {
			continue
		}
		k := key{fields[0].S, fields[1].S}
		if slices.Contains(seen, k) {
			continue
		}
		seen = append(seen, k)
		s := p.shares[k]
		if s == nil {
			s = &share{own: fields[2].S == "user", paths: map[string]float64{}}
			p.shares[k] = s
		}
		s.total += seconds
		if i == 0 && r.runs {
			s.self += seconds
		}
		s.paths[callers(r.stack[i+1:])] += seconds
	}
}

// callersShown is how many callers a path has.
const callersShown = 3

// callers returns the first callers of a function as text: "call < processCommand".
func callers(stack []types.Value) string {
	var names []string
	for _, f := range stack[:min(len(stack), callersShown)] {
		if fields, _ := f.A.([]types.Value); len(fields) > 0 && !fields[0].IsNull {
			names = append(names, fields[0].S)
		}
	}
	return strings.Join(names, " < ")
}

// path is a way in which a function was called, with its share of the function's time.
type path struct {
	callers string
	share   float64
}

// pathsTo returns the ways to a function, the most frequent first.
func (p *profile) pathsTo(k key) (all []path) {
	s := p.shares[k]
	if s == nil {
		return nil
	}
	for callers, n := range s.paths {
		all = append(all, path{callers, n / s.total})
	}
	slices.SortFunc(all, func(a, b path) int {
		if a.share != b.share {
			if a.share > b.share {
				return -1
			}
			return 1
		}
		return strings.Compare(a.callers, b.callers)
	})
	return all
}

package slicing

import "endoscope/planner/plan"

// Slice is what happened in a slice, in ns.
type Slice struct {
	Progress  int64 // processor time of the program, with that of the probes
	Uncertain int64 // how far it may be off
	Spent     int64 // by the hits in it, by their prices
	Censored  int64 // calls that did not end in time
}

// bounds returns the progress without that of the probes, and its bounds.
func (s *Slice) bounds() (low, middle, high float64) {
	all, spent, unsure := float64(s.Progress), float64(s.Spent), float64(s.Uncertain)
	low = max(all-MostPrice*spent-unsure, 0)
	high = all - LeastPrice*spent + unsure
	return low, min(max(all-spent, low), high), high
}

// Exposure is a row without events of a first stage that is estimated (plan.SeenAgg).
type Exposure struct {
	Function, Series, Replicate       int
	Seen, Whole, Slow, Fast, Censored int64
}

// account is the exposure of a function in a series.
type account struct {
	series            int
	since             int64 // the program's progress when it began, without that of the probes
	until             int64 // and when it ended; -1: it has not
	slices            int
	seen              [plan.Replicates]float64
	low, middle, high float64
	censored          [plan.Replicates]int64
	sent              map[int]Exposure // by replicate
}

// Ledger has the exposures of functions that are observed in slices. The zero value is empty.
type Ledger struct {
	open   map[int]*account // by function
	closed map[int][]*account
}

// enough reports whether the slices say by themselves how often the function was called.
func (a *account) enough() bool {
	return a.replicates() >= leastReplicates && a.low > a.middle/2
}

func (a *account) replicates() (n int) {
	for _, seen := range a.seen {
		if seen > 0 {
			n++
		}
	}
	return n
}

// leastReplicates is how many replicates a series has at the least that another follows.
const leastReplicates = 8

// Begin says that a function is observed in slices from now on, in a series. progress is that
// of the program, without that of the probes. A function whose series has had too few slices
// remains in it: alone these would have no bound.
func (l *Ledger) Begin(function, series int, progress int64) {
	if l.open == nil {
		l.open, l.closed = map[int]*account{}, map[int][]*account{}
	}
	if a := l.open[function]; a != nil {
		if !a.enough() {
			return
		}
		a.until = progress
		l.closed[function] = append(l.closed[function], a)
	}
	l.open[function] = &account{series: series, since: progress, until: -1, sent: map[int]Exposure{}}
}

// Series returns the series of a function that is observed in slices.
func (l *Ledger) Series(function int) int {
	if a := l.open[function]; a != nil {
		return a.series
	}
	return 0
}

// Sliced reports whether a function has had enough slices in its series that some number of
// calls in them would have bounds.
func (l *Ledger) Sliced(function int) bool {
	a := l.open[function]
	return a != nil && a.replicates() >= leastReplicates
}

// End says that a function, of which Sliced is true, is observed all the time from now on.
func (l *Ledger) End(function int, progress int64) {
	a := l.open[function]
	a.until = progress
	l.closed[function] = append(l.closed[function], a)
	delete(l.open, function)
}

// Functions returns the number of functions that are observed in slices.
func (l *Ledger) Functions() int { return len(l.open) }

// Later returns the number of functions that are observed all the time and were observed in slices
// before.
func (l *Ledger) Later() (n int) {
	for f := range l.closed {
		if l.open[f] == nil {
			n++
		}
	}
	return n
}

// Seen returns how many slices a function has had in its series, and which share of the
// program's progress they have seen. progress is that now, without that of the probes.
func (l *Ledger) Seen(function int, progress int64) (slices int, share float64) {
	a := l.open[function]
	if a == nil {
		return 0, 0
	}
	return a.slices, min(a.middle/float64(max(progress-a.since, 1)), 1)
}

// Add adds a slice of functions to a replicate.
func (l *Ledger) Add(functions []int, replicate int, s *Slice) {
	low, middle, high := s.bounds()
	for _, f := range functions {
		a := l.open[f]
		a.slices++
		a.seen[replicate] += middle
		a.low, a.middle, a.high = a.low+low, a.middle+middle, a.high+high
		a.censored[replicate] += s.Censored
	}
}

// Take returns what is to be added to the exposures taken before. progress is that of the
// program now, without that of the probes; spent is what all hits took of it.
func (l *Ledger) Take(progress, spent int64) (list []Exposure) {
	for f, a := range l.open {
		list = a.take(f, progress, spent, list)
	}
	for f, accounts := range l.closed {
		for _, a := range accounts {
			list = a.take(f, progress, spent, list)
		}
	}
	return list
}

// Restart begins all accounts again, at a border between two panes. Nothing is left to take.
func (l *Ledger) Restart(progress int64) {
	clear(l.closed)
	for f, a := range l.open {
		l.open[f] = &account{series: a.series, since: progress, until: -1, sent: map[int]Exposure{}}
	}
}

func (a *account) take(function int, progress, spent int64, list []Exposure) []Exposure {
	if a.until >= 0 {
		progress = a.until
	}
	whole := float64(max(progress-a.since, 1))
	e := Exposure{Whole: int64(whole)}
	// The progress of the whole time is as uncertain as what hits have cost.
	share := min(float64(spent)/max(float64(progress), 1), 1)
	slow, fast := (1-LeastPrice)*share, (MostPrice-1)*share
	if a.middle > 0 {
		slow, fast = slow+1-a.low/a.middle, fast+a.high/a.middle-1
	}
	e.Slow, e.Fast = int64(whole*slow), int64(whole*fast)
	list = a.add(function, plan.ExactReplicate, e, list)
	for r, seen := range a.seen {
		list = a.add(function, r, Exposure{Seen: int64(seen), Censored: a.censored[r]}, list)
	}
	return list
}

// add appends the difference between an exposure and what was taken of it.
func (a *account) add(function, replicate int, e Exposure, list []Exposure) []Exposure {
	old := a.sent[replicate]
	if e == old {
		return list
	}
	a.sent[replicate] = e
	return append(list, Exposure{
		Function: function, Series: a.series, Replicate: replicate,
		Seen: e.Seen - old.Seen, Whole: e.Whole - old.Whole, Slow: e.Slow - old.Slow, Fast: e.Fast - old.Fast, Censored: e.Censored - old.Censored,
	})
}

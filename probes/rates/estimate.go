package rates

import (
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// hotBatch and coldBatch are how many places are counted at a time, with
	// samples and without, for batchTime.
	hotBatch  = 32
	coldBatch = 64
	batchTime = 4 * time.Millisecond
	// maxCounting limits the time in which batches begin, and hotCounting the
	// part of it for places with samples. If others delay the program, both are
	// extended by the same factor.
	maxCounting = 32 * time.Millisecond
	hotCounting = 24 * time.Millisecond
	// maxSlowdown limits the correction for the slowdown by probes: for a
	// program that does almost nothing but execute probes, its speed without
	// them is a guess.
	maxSlowdown = 8
)

// Candidate is a function that may be probed.
type Candidate struct {
	Place
	Samples int     // samples in it
	CostNs  float64 // of a call, if it is probed
}

// Estimate is the cost of probing all candidates at the current rates.
type Estimate struct {
	PerSecond float64 // calls of all candidates
	CPUs      float64 // processors that the probes would keep busy
	// AtLeast: this is a lower bound, since counting stopped early.
	AtLeast bool
	// Calls per second of the candidates that were counted; others have no
	// entry.
	Calls map[int]float64
}

// Estimate counts calls of candidates, until the cost of those counted exceeds
// limit (in processors; 0: no limit), the time is up, or the rest can be
// extrapolated. It follows Observe, which returned the samples.
func (m *Meter) Estimate(candidates []Candidate, limit float64) (Estimate, error) {
	began := time.Now()
	c := counting{Meter: m, candidates: candidates, e: Estimate{Calls: map[int]float64{}}, capped: limit > 0, limit: limit}
	var hot, cold []int
	for i, x := range candidates {
		if x.Samples > 0 {
			hot = append(hot, i)
		} else {
			cold = append(cold, i)
		}
	}
	slices.SortStableFunc(hot, func(a, b int) int { return candidates[b].Samples - candidates[a].Samples })
	rand.Shuffle(len(cold), func(i, j int) { cold[i], cold[j] = cold[j], cold[i] })
	until := func(d time.Duration) time.Time {
		return began.Add(time.Duration(float64(d) * min(m.held, maxHeld)))
	}
	hot, err := c.count(hot, hotBatch, until(hotCounting))
	if err != nil {
		return c.e, err
	}
	rest, err := c.count(cold, coldBatch, until(maxCounting))
	if err != nil {
		return c.e, err
	}
	counted := cold[:len(cold)-len(rest)]
	if len(hot) > 0 || len(counted) == 0 && len(rest) > 0 {
		c.e.AtLeast = true
	}
	c.extrapolate(counted, len(rest))
	return c.e, nil
}

// counting is the state of one Estimate.
type counting struct {
	*Meter
	candidates []Candidate
	e          Estimate
	capped     bool // stopped by limit
	limit      float64
}

// count counts calls of the candidates in which, some at a time, and returns
// those that were not counted.
func (c *counting) count(which []int, some int, until time.Time) (rest []int, err error) {
	for len(which) > 0 && time.Now().Before(until) && !(c.capped && c.e.CPUs > c.limit) {
		n := min(some, len(which))
		if err := c.batch(which[:n]); err != nil {
			return nil, err
		}
		which = which[n:]
	}
	return which, nil
}

// batch counts calls of the candidates in which, all at a time.
func (c *counting) batch(which []int) error {
	places := make([]Place, len(which))
	for i, x := range which {
		places[i] = c.candidates[x].Place
	}
	var w window
	n, err := c.counter.count(places, func() { w = c.watch(batchTime) })
	if err != nil {
		return err
	}
	slowdown := c.slowdown(w)
	if slowdown == maxSlowdown || w.all == 0 && c.expected(w) > 1 {
		c.e.AtLeast = true
	}
	for i, x := range which {
		if n[i] > 0 {
			rate := float64(n[i]) * slowdown * c.absence(w) / w.took.Seconds()
			c.e.Calls[x] = rate
			c.add(rate, c.candidates[x].CostNs)
		}
	}
	return nil
}

func (c *counting) add(rate, costNs float64) {
	c.e.PerSecond += rate
	c.e.CPUs += rate * costNs / 1e9
}

// extrapolate applies the calls of those counted, a random sample, to the rest,
// except for the most expensive one: it is an outlier that samples missed, and
// would be multiplied by hundreds.
func (c *counting) extrapolate(counted []int, rest int) {
	if len(counted) < 2 || rest == 0 {
		return
	}
	var rates, costs, most, mostRate float64
	for _, x := range counted {
		rate := c.e.Calls[x]
		cost := rate * c.candidates[x].CostNs
		rates += rate
		costs += cost
		if cost > most {
			most, mostRate = cost, rate
		}
	}
	times := float64(rest) / float64(len(counted)-1)
	c.e.PerSecond += (rates - mostRate) * times
	c.e.CPUs += (costs - most) * times / 1e9
}

// slowdown returns the factor by which a program does more work in the same
// processor time without the probes of a batch: probes run in the kernel, so
// the share of time in its own code decreases as its work does.
func (m *Meter) slowdown(w window) float64 {
	// One more of each, so that few samples make no large correction.
	s := (m.seen.user/m.seen.CPUs*float64(w.all) + 1) / (float64(w.user) + 1)
	return min(max(s, 1.0/maxSlowdown), maxSlowdown)
}

// absence returns the factor by which the program would have had more processor
// time in a window if it had had as much as it wanted when it was observed.
func (m *Meter) absence(w window) float64 {
	return (m.expected(w) + 1) / (float64(w.all) + 1)
}

// expected returns the number of samples in a window if the program had as much
// processor time as it wants.
func (m *Meter) expected(w window) float64 { return m.seen.CPUs * float64(w.took) / float64(period) }

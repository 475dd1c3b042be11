package top

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// The limit is divided between stack samples and probes. What is left over is for what the
// figures of the engine do not see, such as the calls while probes are removed.
const (
	samplingShare = 0.003
	probesShare   = 0.005
	// countedShare of a CPU is for functions that are counted all the time.
	countedShare = 0.003
)

const (
	// saved is the time for which unused budget is saved.
	saved = 5 * time.Second
	// firstBurst is how many functions are counted in the first burst, before it is known
	// what that costs.
	firstBurst = 3
	mostBurst  = 24
	// burstLength is that of bursts. The engine needs more to attach and remove probes.
	burstLength = 20 * time.Millisecond
	// usualPrice is the cost of a call whose duration is measured, until it is known.
	usualPrice = 1e-6
	// mostCounted bounds the functions that are counted all the time.
	mostCounted = 60
)

// figures are what is known of the calls of a function.
type figures struct {
	rate     float64 // calls per second; negative: unknown
	avg, p99 time.Duration
	at       time.Time // when they were measured
	bursts   int       // in which it was counted
	why      string    // why its calls cannot be counted; "": they can
}

// mixedBursts is how many bursts a mean is about.
const mixedBursts = 4

// addBurst adds the figures of one burst to the mean of the last ones, so that a call that
// was interrupted does not change everything.
func (f *figures) addBurst(c called) {
	f.bursts++
	k := 1 / float64(min(f.bursts, mixedBursts))
	f.rate += k * (c.rate - f.rate)
	if c.n == 0 {
		return
	}
	if f.avg == 0 {
		k = 1
	}
	f.avg += time.Duration(k * float64(c.avg-f.avg))
	f.p99 += time.Duration(k * float64(c.p99-f.p99))
}

// budget decides which functions are counted. Costs are in seconds of CPU time.
type budget struct {
	tokens float64 // may be spent now
	filled time.Time
	price  float64          // of a call
	each   float64          // cost of a burst for each function; 0: unknown
	known  map[key]*figures // functions that have been counted
	spent  []expense        // of the last seconds
}

type expense struct {
	at   time.Time
	cost float64
}

// measured is the period over which the overhead is averaged.
const measured = 10 * time.Second

func newBudget(now time.Time) *budget {
	return &budget{filled: now, tokens: probesShare * saved.Seconds() / 2, price: usualPrice, known: map[key]*figures{}}
}

// fill adds what may be spent since the last call.
func (b *budget) fill(now time.Time) {
	b.tokens = math.Min(b.tokens+probesShare*now.Sub(b.filled).Seconds(), probesShare*saved.Seconds())
	b.filled = now
}

// spend subtracts a cost.
func (b *budget) spend(now time.Time, cost float64) {
	b.tokens -= cost
	b.spent = append(b.spent, expense{now, cost})
}

// overhead returns the mean cost of the last seconds, as a share of a CPU.
func (b *budget) overhead(now time.Time) (sum float64) {
	b.spent = slices.DeleteFunc(b.spent, func(e expense) bool { return now.Sub(e.at) > measured })
	for _, e := range b.spent {
		sum += e.cost
	}
	return sum / measured.Seconds()
}

// cost returns the share of a CPU that counting a function costs; negative: unknown.
func (b *budget) cost(k key) float64 {
	f := b.known[k]
	if f == nil || f.rate < 0 {
		return -1
	}
	return f.rate * b.price
}

// counted returns the functions to count all the time: of those whose cost is known, in the
// order of candidates, all that fit.
func (b *budget) counted(candidates []key) (set []key) {
	left := countedShare
	for _, k := range candidates {
		if cost := b.cost(k); cost >= 0 && cost <= left && b.known[k].why == "" && len(set) < mostCounted {
			left -= cost
			set = append(set, k)
		}
	}
	return set
}

// burst returns the functions to count in the next burst: first those of which nothing is
// known, then those that were counted longest ago. It returns none while there is no budget.
func (b *budget) burst(candidates, counted []key, now time.Time) (set []key) {
	if b.tokens <= 0 {
		return nil
	}
	var old []key
	left, unknown := b.tokens, firstBurst
	if b.each > 0 {
		unknown = max(1, min(mostBurst, int(b.tokens/b.each)))
	}
	for _, k := range candidates {
		f := b.known[k]
		switch {
		case f == nil && len(set) < unknown:
			set = append(set, k)
			left -= b.each
		case f != nil && f.why == "" && !slices.Contains(counted, k) && now.Sub(f.at) > time.Second:
			old = append(old, k)
		}
	}
	slices.SortStableFunc(old, func(x, y key) int { return cmp.Compare(b.known[x].at.UnixNano(), b.known[y].at.UnixNano()) })
	for _, k := range old {
		cost := b.cost(k) * burstExposure.Seconds()
		if len(set) >= mostBurst || cost > left && len(set) > 0 {
			break
		}
		left -= cost
		set = append(set, k)
	}
	return set
}

// burstExposure is about how long the probes of a burst are in the program: its length,
// and the time to attach and remove them.
const burstExposure = 4 * burstLength

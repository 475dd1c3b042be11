package cost

// Candidate is a strategy as it stands at an evaluation.
type Candidate struct {
	Cost float64 // ns per second
	// Known is false where the cost rests on too little that was seen lately.
	Known bool
}

// Chooser keeps choosing between candidates, of which the first acquires
// everything: that is how a query begins, and how it learns what it cannot see
// while gates are closed. It changes its mind only for a clear gain that lasts.
type Chooser struct {
	current int
	better  int // the candidate that has been better than current
	times   int // evaluations in a row
}

const (
	// gain is by how much a candidate must be cheaper than the current one.
	gain = 0.15
	// patience is for how many evaluations in a row.
	patience = 3
	// trifle is a difference in ns per second that is worth no switch: 10 ppm of a CPU.
	trifle = 10_000
)

// Current is the candidate in use.
func (c *Chooser) Current() int { return c.current }

// Next evaluates the candidates and returns the one to use from now on.
func (c *Chooser) Next(cs []Candidate) int {
	now := cs[c.current]
	if c.current != 0 && unknown(cs) {
		c.become(0)
		return 0
	}
	best := c.current
	for i, x := range cs {
		if x.Known && x.Cost < cs[best].Cost {
			best = i
		}
	}
	// Of everything the cost is always known: nothing is hidden then.
	if best == c.current || cs[best].Cost > now.Cost*(1-gain) || now.Cost-cs[best].Cost < trifle {
		c.times = 0
		return c.current
	}
	if best != c.better {
		c.better, c.times = best, 0
	}
	if c.times++; c.times >= patience {
		c.become(best)
	}
	return c.current
}

func (c *Chooser) become(i int) { c.current, c.better, c.times = i, i, 0 }

func unknown(cs []Candidate) bool {
	for _, x := range cs {
		if !x.Known {
			return true
		}
	}
	return false
}

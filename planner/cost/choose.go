package cost

import "time"

// Candidate is a strategy as it stands at an evaluation.
type Candidate struct {
	Cost float64 // ns per second
	// Known is false where the cost rests on too little that was seen lately.
	Known bool
	// Doubted says that the load has changed since that was seen.
	Doubted bool
}

// Chooser keeps choosing between candidates, of which the first acquires
// everything: that is how a query begins, and how it learns what it cannot see
// while gates are closed. That takes one evaluation. Otherwise it changes its mind
// only for a clear gain that lasts.
type Chooser struct {
	current int
	better  int     // the candidate that has been better than current
	times   int     // evaluations in a row
	spent   float64 // ns that the current candidate has cost since everything was acquired
	from    int     // the candidate before everything was acquired
	alarmed bool    // that was because of a doubt
	heed    float64 // the share of spent that a doubt is worth now; 0: doubtShare
}

// Every is how often to evaluate; a look, with everything acquired, takes as long.
const Every = time.Second

const (
	// gain is by how much a candidate must be cheaper than the current one.
	gain = 0.05
	// patience is for how many evaluations in a row.
	patience = 2
	// trifle is a difference in ns per second that is worth no switch: 10 ppm of a CPU.
	trifle = 10_000
	// What it may cost to look again, as a share of what was spent since: because
	// it was long ago, and because the load has changed. Each time that it had not
	// halves the latter until it has.
	dueShare, doubtShare = 0.01, 0.25
)

// Current is the candidate in use.
func (c *Chooser) Current() int { return c.current }

// Next evaluates the candidates after d in which the current one was in use, and
// returns the one to use from now on.
func (c *Chooser) Next(cs []Candidate, d time.Duration) int {
	now := cs[c.current]
	looked := c.current == 0
	if looked {
		c.spent = 0
	} else {
		c.spent += now.Cost * d.Seconds()
		if due, doubted := c.looks(cs, max(0, cs[0].Cost-now.Cost)*Every.Seconds()); due || doubted {
			c.from, c.alarmed = c.current, !due
			c.become(0)
			return 0
		}
	}
	best := c.current
	for i, x := range cs {
		if x.Known && !x.Doubted && x.Cost < cs[best].Cost {
			best = i
		}
	}
	if best == c.current || cs[best].Cost > now.Cost*(1-gain) || now.Cost-cs[best].Cost < trifle {
		if c.alarmed && looked && cs[c.from].Known && !cs[c.from].Doubted {
			c.heed, c.alarmed = doubtShare, false // the doubt was right: what was chosen before is no better any more
		}
		c.times = 0
		return c.current
	}
	if best != c.better {
		c.better, c.times = best, 0
	}
	if c.times++; c.times >= patience || looked {
		c.become(best)
	}
	return c.current
}

// looks reports whether to acquire everything once more, which costs so much more,
// and why.
func (c *Chooser) looks(cs []Candidate, more float64) (due, doubted bool) {
	heed := c.heed
	if heed == 0 {
		heed = doubtShare
	}
	for _, x := range cs {
		due = due || !x.Known && more <= dueShare*c.spent
		doubted = doubted || x.Doubted && more <= heed*c.spent
	}
	return due, doubted
}

func (c *Chooser) become(i int) {
	c.current, c.better, c.times = i, i, 0
	switch {
	case i == 0:
		return
	case i != c.from:
		c.heed = doubtShare
	case c.alarmed:
		c.heed = max(dueShare, c.heed/2)
	}
	c.from, c.alarmed = i, false
}

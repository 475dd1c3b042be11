package cost

import "time"

// Candidate is the state of a strategy at an evaluation.
type Candidate struct {
	Cost float64 // ns per second
	// Known is false if too little was observed lately to estimate the cost.
	Known bool
	// Doubted is true if the load has changed since the observations.
	Doubted bool
}

// Chooser repeatedly chooses between candidates. The first candidate acquires everything: a
// query starts with it, and uses it for one evaluation to learn what is invisible while
// gates are closed. Otherwise the choice changes only for a clear gain that lasts.
type Chooser struct {
	current    int
	better     int     // the candidate that has been better than current
	times      int     // evaluations in a row
	spent      float64 // cost in ns of the current candidate since everything was last acquired
	from       int     // the candidate before everything was acquired
	alarmed    bool    // everything was acquired because of a doubt
	doubtWorth float64 // the share of spent that a doubt is worth now; 0: doubtShare
}

// Every is the interval between evaluations; acquiring everything once takes as
// long.
const Every = time.Second

const (
	// gain is the share by which a candidate must be cheaper than the current one.
	gain = 0.05
	// patience is the number of consecutive evaluations it must be cheaper.
	patience = 2
	// negligible is a difference in ns per second that does not justify a switch: 10 ppm of
	// a CPU.
	negligible = 10_000
	// The allowed cost of acquiring everything again, as a share of the cost since the last
	// time: because that was long ago, and because the load has changed. The latter share
	// is halved each time the load turned out not to have changed.
	dueShare, doubtShare = 0.01, 0.25
)

// Current returns the candidate in use.
func (c *Chooser) Current() int { return c.current }

// Next evaluates the candidates after d with the current one in use, and returns the one to
// use from now on.
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
	if best == c.current || cs[best].Cost > now.Cost*(1-gain) || now.Cost-cs[best].Cost < negligible {
		if c.alarmed && looked && cs[c.from].Known && !cs[c.from].Doubted {
			c.doubtWorth, c.alarmed = doubtShare, false // the doubt was justified: the earlier choice is not better any more
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

// looks reports whether to acquire everything once more, at the extra cost more, and why.
func (c *Chooser) looks(cs []Candidate, more float64) (due, doubted bool) {
	worth := c.doubtWorth
	if worth == 0 {
		worth = doubtShare
	}
	for _, x := range cs {
		due = due || !x.Known && more <= dueShare*c.spent
		doubted = doubted || x.Doubted && more <= worth*c.spent
	}
	return due, doubted
}

func (c *Chooser) become(i int) {
	c.current, c.better, c.times = i, i, 0
	switch {
	case i == 0:
		return
	case i != c.from:
		c.doubtWorth = doubtShare
	case c.alarmed:
		c.doubtWorth = max(dueShare, c.doubtWorth/2)
	}
	c.from, c.alarmed = i, false
}

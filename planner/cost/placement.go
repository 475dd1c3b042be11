package cost

// Placement is one way to divide a query between client and server (EndoScope, section
// 5.2), with the cost per second of the server's part. The client's part is not counted.
type Placement struct {
	In    float64 // tuples per second into the server's part (N)
	Tuple float64 // server's cost to process one of them, ns (Ttup)
	Out   float64 // tuples per second out of it (N')
	Net   float64 // cost to send one of those, ns (Tnet)
}

// Cost returns N·Ttup + N'·Tnet, in ns per second.
func (p Placement) Cost() float64 { return p.In*p.Tuple + p.Out*p.Net }

// Mover decides when operators move between placements: only for a clear gain that lasts,
// and not soon after the last move. Unlike for the acquisitions of a join (Chooser), the
// cost of every placement is known at any time.
type Mover struct {
	current int
	better  int // the placement that has been better than current
	times   int // evaluations in a row
	rest    int // evaluations until it may move again
	trial   int // evaluations in which it may undo the last move at once
}

const (
	// moveGain is the share by which a placement must be cheaper than the current one:
	// estimates of inactive placements are less exact than measurements.
	moveGain = 0.2
	// afterMove is the number of evaluations without another move.
	afterMove = 3
)

// NewMover returns a mover that starts with placement first.
func NewMover(first int) *Mover { return &Mover{current: first} }

// Current returns the placement in use.
func (m *Mover) Current() int { return m.current }

// Next evaluates the costs of the placements, in ns per second, and returns the one to use
// from now on.
func (m *Mover) Next(costs []float64) int {
	if m.rest > 0 {
		m.rest--
		return m.current
	}
	best := m.current
	for i, c := range costs {
		if c < costs[best] {
			best = i
		}
	}
	now := costs[m.current]
	tried := m.trial > 0
	m.trial = max(0, m.trial-1)
	if best == m.current || costs[best] > now*(1-moveGain) || now-costs[best] < negligible {
		m.times = 0
		return m.current
	}
	if best != m.better {
		m.better, m.times = best, 0
	}
	if m.times++; m.times >= patience || tried {
		m.current, m.times, m.rest, m.trial = best, 0, afterMove, 0
	}
	return m.current
}

// Try marks the last move as based on an estimate: it is undone at once if the estimate was
// wrong.
func (m *Mover) Try() { m.rest, m.trial = 0, afterMove }

// Move moves the operators unconditionally.
func (m *Mover) Move(to int) { *m = Mover{current: to, better: to, rest: afterMove} }

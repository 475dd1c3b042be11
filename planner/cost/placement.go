package cost

// Placement is what the sites' shares of a query cost per second, with one of the
// ways to divide it (EndoScope, section 5.2): the client's share is not counted.
type Placement struct {
	In    float64 // tuples a second that the server's share begins with (N)
	Tuple float64 // what it takes the server to process one of them, ns (Ttup)
	Out   float64 // tuples a second that it gives (N')
	Net   float64 // what it takes to send one of those, ns (Tnet)
}

// Cost is N·Ttup + N'·Tnet, in ns per second.
func (p Placement) Cost() float64 { return p.In*p.Tuple + p.Out*p.Net }

// Mover decides when operators move from one placement to another: only for a clear
// gain that lasts, and not soon after they have moved. Unlike the acquisitions of a
// join (Chooser), what placements would cost is known of all of them at any time.
type Mover struct {
	current int
	better  int // the placement that has been better than current
	times   int // evaluations in a row
	rest    int // evaluations until it may move again
	trial   int // evaluations in which it may take the last move back at once
}

const (
	// moveGain is by how much a placement must be cheaper than the current one:
	// estimates of what is not done now are off by more than measurements.
	moveGain = 0.2
	// afterMove is for how many evaluations operators stay where they have moved.
	afterMove = 3
)

// NewMover returns a mover that begins with a placement.
func NewMover(first int) *Mover { return &Mover{current: first} }

// Current is the placement in use.
func (m *Mover) Current() int { return m.current }

// Next evaluates what the placements cost, in ns per second, and returns the one to
// use from now on.
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
	if best == m.current || costs[best] > now*(1-moveGain) || now-costs[best] < trifle {
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

// Try says that the last move was made for what was expected, and not seen yet: it is
// taken back at once if it turns out otherwise.
func (m *Mover) Try() { m.rest, m.trial = 0, afterMove }

// Move has operators be where they must, whatever it costs.
func (m *Mover) Move(to int) { *m = Mover{current: to, better: to, rest: afterMove} }

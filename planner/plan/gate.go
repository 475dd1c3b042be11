package plan

import "time"

// GateWay is how an acquisition is kept shut while nobody needs its rows.
type GateWay uint8

// Ways to shut an acquisition.
const (
	// NoGate: it cannot be shut.
	NoGate GateWay = iota
	// AtEntry: its programs look at a flag first, when a function is entered,
	// and do nothing else.
	AtEntry
	// Paused: a sampler looks at a flag whenever it is due, and takes no reading.
	// Percentages and rates need readings from before.
	Paused
	// Resting: a sampler takes readings, from which percentages and rates are
	// computed later, and gives no rows.
	Resting
	// Holding: a sampler keeps its rows until it is known whether they are
	// needed.
	Holding
	// Asleep: a sampler does nothing until it is woken. Percentages and rates
	// come a rate window later.
	Asleep
)

func (w GateWay) String() string {
	return [...]string{"no gate", "flag at entries", "paused", "reads on and gives no rows", "holds its rows", "asleep"}[w]
}

// Ability is what the source of an acquisition can do about gates.
type Ability struct {
	// Gate is AtEntry for streams of calls, Paused for samplers, NoGate where
	// nothing can be shut, for the reason Why.
	Gate GateWay
	Why  string
	// Lag, of a sampler: its rows say something of so much time before them, which
	// it must have been awake; 0: of none.
	Lag time.Duration
	// Opens: programs in the kernel test the acquisition's whole condition, and
	// can then open a gate before they read the row's timestamp. If not, Closed
	// says why.
	Opens  bool
	Closed string
}

// Gating is a way to acquire the inputs of a window join: Opener all the time,
// and Gated only around the times of Opener's rows (EndoScope, section 5.3).
type Gating struct {
	Join *Join
	// Opener and Gated are the acquisitions whose times the join compares.
	Opener, Gated *Acquire
	// OpenerName and GatedName are what the statement calls them.
	OpenerName, GatedName string
	// Left says that the join's left input is the opener's.
	Left bool
	Way  GateWay
	// Within is how long behind an opener's row the gated one's are needed, and
	// Before how long in front of it.
	Within, Before time.Duration
	// Kernel says that the opener's programs open the gate; else the engine
	// does, when the row has arrived.
	Kernel bool
	// Exact says that the join gives the rows that it gives with both inputs
	// acquired all the time. Inexact says why it does not.
	Exact   bool
	Inexact string
	// Refused says why this cannot be done at all; "" where it can.
	Refused string
}

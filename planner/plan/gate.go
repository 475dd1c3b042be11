package plan

import "time"

// GateWay is the mechanism by which an acquisition is shut while its rows are not needed.
type GateWay uint8

// Ways to shut an acquisition.
const (
	// NoGate: it cannot be shut.
	NoGate GateWay = iota
	// AtEntry: its programs test a flag first, at function entry, and do nothing else if it
	// is clear.
	AtEntry
	// Paused: a sampler tests a flag at each interval, and takes no reading if it is clear.
	// Percentages and rates need earlier readings.
	Paused
	// Resting: a sampler takes readings, from which percentages and rates are computed
	// later, but emits no rows.
	Resting
	// Holding: a sampler keeps its rows until it is known whether they are needed.
	Holding
	// Asleep: a sampler does nothing until it is woken. Percentages and rates are available
	// one rate window later.
	Asleep
)

func (w GateWay) String() string {
	return [...]string{"no gate", "flag at entries", "paused", "reads but emits no rows", "holds its rows", "asleep"}[w]
}

// Ability describes the gates that the source of an acquisition supports.
type Ability struct {
	// Gate is AtEntry for streams of calls, Paused for samplers, and NoGate, with the
	// reason Why, for what cannot be shut.
	Gate GateWay
	Why  string
	// Lag is the time before a sampler's row that the row describes, in which the sampler
	// must have been awake; 0: none.
	Lag time.Duration
	// Opens: programs in the kernel test the acquisition's whole condition, and can then
	// open a gate before they read the row's timestamp. If not, Closed says why.
	Opens  bool
	Closed string
}

// Gating is a way to acquire the inputs of a window join: Opener all the time, and Gated
// only around the times of Opener's rows (EndoScope, section 5.3).
type Gating struct {
	Join *Join
	// Opener and Gated are the acquisitions whose times the join compares.
	Opener, Gated *Acquire
	// OpenerName and GatedName are their names in the statement.
	OpenerName, GatedName string
	// Left is set if the opener is the join's left input.
	Left bool
	Way  GateWay
	// Within is how long after an opener's row the gated input's rows are needed, and
	// Before how long before it.
	Within, Before time.Duration
	// Kernel is set if the opener's programs open the gate; otherwise the engine opens it
	// when the row has arrived.
	Kernel bool
	// Exact is set if the join has the same result as with both inputs acquired all the
	// time. Inexact is the reason if not.
	Exact   bool
	Inexact string
	// Refused is the reason why gating is impossible; "" if it is possible.
	Refused string
}

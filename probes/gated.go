package probes

import (
	"time"

	"endoscope/planner/plan"
	"endoscope/probes/gate"
)

// Gateable is a Source that can be kept shut by a gate, and perhaps open gates
// of others (EndoScope, section 5.3).
type Gateable interface {
	Source
	// Ability is what it can do about gates: known from Prepare on.
	Ability() plan.Ability
	// Price is what its events cost where it is shut in a way.
	Price(way plan.GateWay) Price
	// Gate is called before Start, if at all. From Start on, the source acquires
	// only what passes its gate; its watermark advances all the same.
	Gate(Gates)
	// Activity is what happened since Start. Safe to call while the source ends.
	Activity() Activity
}

// Price is what an event costs, in ns of the machine's time.
type Price struct {
	// Open is of one that is acquired: of a call, until it is known whether it is
	// wanted.
	Open float64
	// Return and Row are what it costs more to await a call's return, and for an
	// event to become a row.
	Return, Row float64
	// Shut is of one that meets a shut gate.
	Shut float64
	// Wake is of each time that the gate opens.
	Wake float64
}

// Gates are those that a source has to do with.
type Gates struct {
	Set *gate.Set
	// Own is the gate that it passes; nil: none. Way says how it is shut: AtEntry
	// for calls, Paused, Resting or Asleep for samplers.
	Own *gate.Gate
	Way plan.GateWay
	// Opens are those that it opens for each of its rows, before it reads the
	// row's timestamp. Only sources whose Ability says Opens have any.
	Opens []Opened
	// Detaches says that Detach and Attach may be called.
	Detaches bool
}

// Detachable is a Gateable that can do without its probes while its gate is shut
// for long: a shut gate costs each call a trap, none at all costs nothing.
type Detachable interface {
	Gateable
	// Detachable reports whether it can: known from Prepare on.
	Detachable() bool
	// Detach takes the probes away and Attach puts them back, which both take
	// tens of milliseconds. The stream goes on, without rows. Safe to call while
	// the source ends; they then do nothing.
	Detach() error
	Attach() error
	// Used is the processor time that the processes have used which it observes:
	// all that is seen of them while nothing is attached. It is not known if there
	// are none, or if one of those that were there at Prepare has ended.
	Used() (used time.Duration, known bool)
}

// Opened is a gate that is open up to Within behind each row of a source.
type Opened struct {
	Gate   *gate.Gate
	Within time.Duration
}

// MaxOpened is how many gates a source can open.
const MaxOpened = 4

// Activity counts monotonically.
type Activity struct {
	Events uint64 // calls, or times at which a sampler was due
	Shut   uint64 // those of them that met a closed gate
	// Awaited are the calls whose return was awaited.
	Awaited uint64
}

package probes

import (
	"time"

	"endoscope/planner/plan"
	"endoscope/probes/gate"
)

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
	// Detaches says that Detach and Attach may follow.
	Detaches bool
}

// Opened is a gate that is open up to Within behind each row of a source.
type Opened struct {
	Gate   *gate.Gate
	Within time.Duration
}

// MaxOpened is how many gates a source can open.
const MaxOpened = 4

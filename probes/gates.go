package probes

import (
	"time"

	"endoscope/planner/plan"
	"endoscope/probes/gate"
)

// Gates are the gates that a source passes or opens.
type Gates struct {
	Set *gate.Set
	// Own is the gate that its rows must pass; nil: none. Way says how the
	// source behaves while it is shut: AtEntry for calls, Paused, Resting or
	// Asleep for samplers.
	Own *gate.Gate
	Way plan.GateWay
	// Opens are the gates that it opens for each of its rows, before it reads
	// the row's timestamp. Only sources whose Ability includes Opens have any.
	Opens []Opened
	// Detaches says that Detach and Attach may follow.
	Detaches bool
}

// Opened is a gate that each row of a source opens for a time of Within.
type Opened struct {
	Gate   *gate.Gate
	Within time.Duration
}

// MaxOpened is the maximum number of gates that a source can open.
const MaxOpened = 4

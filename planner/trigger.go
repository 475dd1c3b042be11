package planner

import (
	"time"

	"endoscope/planner/definitions"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Trigger is a planned CREATE TRIGGER.
type Trigger struct {
	Name string
	Once bool
	// When gives the tuples that the trigger looks at. With a Condition these
	// are all that are selected, and the column of that number says which of
	// them satisfy the condition; without (-1), only those that do.
	When      *plan.Query
	Condition int
	// Tuple are the columns of When that a tuple is shown with, as many as come
	// first; Time is the one of its event time, or -1.
	Tuple   []types.Field
	Time    int
	Actions []Action
	Flow    definitions.Flow
	Notices []string
}

// ActionKind is what an action does.
type ActionKind uint8

// Kinds of action.
const (
	// ActSample and ActMonitor acquire until the trigger's condition fails
	// (unless it is ONCE), for the duration For, or for ever.
	ActSample ActionKind = iota
	ActMonitor
	// ActQuery runs Query once for each activation; INSERT is one.
	ActQuery
	// ActStop ends what triggers acquire from Stream.
	ActStop
	ActNotify
	ActWebhook
)

// Action is one action of a trigger.
type Action struct {
	Kind   ActionKind
	Text   string      // as it is printed
	Query  *plan.Query // SAMPLE, MONITOR and queries
	For    time.Duration
	Stream string // of SAMPLE, MONITOR and STOP
	Str    string // NOTIFY's text, WEBHOOK's URL
}

// Acquires reports whether the action is one that a failing condition undoes.
func (a *Action) Acquires() bool { return a.Kind == ActSample || a.Kind == ActMonitor }

package planner

import (
	"time"

	"endoscope/planner/catalog"
	"endoscope/planner/definitions"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Trigger is a planned CREATE TRIGGER.
type Trigger struct {
	Name string
	Key  string // its qualified name
	Once bool
	// When is the query of the trigger's tuples. With a Condition it returns all selected
	// tuples, and that column is true if a tuple satisfies the condition; without (-1),
	// only those that do.
	When      *plan.Query
	Condition int
	// Tuple are the first columns of When, with which a tuple is shown; Time is the index
	// of its event time, or -1.
	Tuple   []types.Field
	Time    int
	Actions []Action
	Flow    definitions.Flow
	Notices []string
}

// ActionKind is the kind of an action.
type ActionKind uint8

// Kinds of action.
const (
	// ActSample and ActMonitor acquire until the trigger's condition fails (unless it is
	// ONCE), for the duration For, or without limit.
	ActSample ActionKind = iota
	ActMonitor
	// ActRecall returns what Query acquired in the last For: calls of functions, which are
	// recorded in the kernel until the condition holds there, or samples.
	ActRecall
	// ActQuery runs Query once per activation; INSERT is one.
	ActQuery
	// ActStop ends the acquisitions from Stream that triggers started.
	ActStop
	ActNotify
	ActWebhook
)

// Action is one action of a trigger.
type Action struct {
	Kind   ActionKind
	Text   string      // its canonical text
	Query  *plan.Query // SAMPLE, MONITOR, RECALL and queries
	For    time.Duration
	Stream string // of SAMPLE, MONITOR, RECALL and STOP; qualified if a user defined it
	Str    string // text of NOTIFY, URL of WEBHOOK
	Start  int    // where Str is in the statement: its offset, and its end
	Stop   int
}

// Records reports whether the action recalls calls that are recorded in the kernel.
func (a *Action) Records() bool { return a.Kind == ActRecall && a.Stream == catalog.FunctionCall }

// Acquires reports whether a failing condition undoes the action.
func (a *Action) Acquires() bool { return a.Kind == ActSample || a.Kind == ActMonitor }

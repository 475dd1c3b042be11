package entities

import (
	"endoscope/planner/catalog"
	"endoscope/probes/rows"
)

// The streams of this package.
const (
	EntityEvents   = catalog.EntityEvents
	ActivityEvents = catalog.ActivityEvents
)

// Values of the columns category and event, as operators/consistency spells
// them.
const (
	typeCategory       = "TYPE"
	objectCategory     = "OBJECT"
	threadCategory     = "THREAD"
	invocationCategory = "INVOCATION"

	create    = "CREATE"
	load      = "LOAD"
	rename    = "RENAME"
	reclaim   = "RECLAIM"
	enter     = "ENTER"
	leave     = "LEAVE"
	unknown   = "UNKNOWN"
	acquire   = "ACQUIRE"
	release   = "RELEASE"
	beginWait = "BEGIN_WAIT"
	endWait   = "END_WAIT"
)

// row is one event, before it is encoded.
type row struct {
	time                                                int64
	program                                             *program
	thread                                              *thread // thread of the event; nil: the entity existed before monitoring began
	category, event, entity, name, class, parent, other string
	found                                               bool // an ENTER whose time is unknown
}

// tables encodes the rows of both streams.
var tables = rows.NewTables([]string{EntityEvents, ActivityEvents}, rows.Columns[row]{
	"timestamp":   rows.Word(func(x *row) *int64 { return &x.time }),
	"pid":         rows.Count(func(x *row) int64 { return int64(x.program.pid) }),
	"tid":         rows.Count(func(x *row) int64 { return int64(x.eventThread().tid) }),
	"process":     rows.Text(func(x *row) string { return x.program.name }),
	"thread_name": rows.Text(func(x *row) string { return x.eventThread().name }),
	"exe":         rows.Text(func(x *row) string { return x.program.exe }),
	"category":    rows.Str(func(x *row) *string { return &x.category }),
	"event":       rows.Str(func(x *row) *string { return &x.event }),
	"entity_id":   rows.Str(func(x *row) *string { return &x.entity }),
	"name":        rows.Str(func(x *row) *string { return &x.name }),
	"type_name":   rows.Str(func(x *row) *string { return &x.class }),
	"parent_id":   rows.Str(func(x *row) *string { return &x.parent }),
	"other_id":    rows.Str(func(x *row) *string { return &x.other }),
	"thread_id":   rows.Text(func(x *row) string { return x.eventThread().id }),
	"began": rows.IntOr(func(x *row) (int64, bool) {
		return x.time, !x.found && (x.event == enter || x.event == create)
	}),
})

// noThread stands in for the thread of events that have none.
var noThread thread

// eventThread returns the thread of the event.
func (x *row) eventThread() *thread {
	if x.thread == nil {
		return &noThread
	}
	return x.thread
}

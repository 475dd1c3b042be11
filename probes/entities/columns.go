package entities

import (
	"endoscope/operators/batch"
	"endoscope/planner/types"
)

// The streams of this package.
const (
	EntityEvents   = "entity_events"
	ActivityEvents = "activity_events"
)

// fields are the columns of both streams: so they may be united.
var fields = func() []types.Field {
	out := []types.Field{
		{Name: "timestamp", Type: types.Timestamp},
		{Name: "pid", Type: types.Bigint},
		{Name: "tid", Type: types.Bigint},
	}
	for _, name := range []string{"process", "thread_name", "exe", "category", "event", "entity_id", "name", "type_name", "parent_id", "other_id", "thread_id"} {
		out = append(out, types.Field{Name: name, Type: types.Varchar})
	}
	return append(out, types.Field{Name: "began", Type: types.Timestamp})
}()

// Columns are all columns of each stream, the event's time first. tid and
// thread_name are of the thread on which it happened, NULL where that is none of
// the program's own doing.
var Columns = map[string][]types.Field{EntityEvents: fields, ActivityEvents: fields}

// What the columns category and event say, as operators/consistency spells it.
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

// row is one event as it is told.
type row struct {
	time                                                int64
	program                                             *program
	thread                                              *thread // on which it happened; nil: none
	category, event, entity, name, class, parent, other string
	found                                               bool // of an ENTER: when it was is not known
}

// rows makes batches.
type rows struct {
	batch.Filler
	names []string // of the columns
}

func newRows(out types.Schema) *rows {
	r := &rows{}
	for _, f := range out.Fields {
		r.names = append(r.names, f.Name)
	}
	r.Filler = batch.NewFiller(out.Types())
	return r
}

func (r *rows) add(x row) {
	b := r.Row()
	tid, name, id := 0, "", ""
	if x.thread != nil {
		tid, name, id = x.thread.tid, x.thread.name, x.thread.id
	}
	for i, column := range r.names {
		c := &b.Cols[i]
		switch column {
		case "timestamp":
			c.Int = append(c.Int, x.time)
		case "pid":
			r.Number(c, int64(x.program.pid))
		case "tid":
			r.Number(c, int64(tid))
		case "process":
			r.Text(c, x.program.name)
		case "thread_name":
			r.Text(c, name)
		case "exe":
			r.Text(c, x.program.exe)
		case "category":
			r.Text(c, x.category)
		case "event":
			r.Text(c, x.event)
		case "entity_id":
			r.Text(c, x.entity)
		case "name":
			r.Text(c, x.name)
		case "type_name":
			r.Text(c, x.class)
		case "parent_id":
			r.Text(c, x.parent)
		case "other_id":
			r.Text(c, x.other)
		case "thread_id":
			r.Text(c, id)
		case "began":
			if x.found || x.event != enter && x.event != create {
				c.Nulls.Set(b.N)
			}
			c.Int = append(c.Int, x.time)
		}
	}
	r.Done()
}

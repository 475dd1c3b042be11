package stack

import (
	"endoscope/planner/catalog"
	"endoscope/probes/container"
	"endoscope/probes/process"
	"endoscope/probes/rows"
)

// Stream is the only stream of this package.
const Stream = catalog.StackSample

// table builds its rows. A goroutine without a thread has a row of its own, with a
// goroutine number and NULL in tid and thread_name.
var table = rows.NewTable(Stream, columns)

var columns = container.Extend(rows.Columns[observation]{
	"timestamp":   rows.Time(func(o *observation) *uint64 { return &o.time }),
	"pid":         rows.Int(func(o *observation) int64 { return int64(o.process.PID) }),
	"tid":         rows.Count(func(o *observation) int64 { return int64(o.tid) }),
	"process":     rows.String(func(o *observation) string { return o.process.Comm }),
	"thread_name": rows.Text(func(o *observation) string { return o.name }),
	"exe":         rows.Text(func(o *observation) string { return o.process.Exe }),
	"state":       rows.String(func(o *observation) string { return o.state.String() }),
	"runnable":    rows.Bool(func(o *observation) bool { return o.runnable }),
	"syscall":     rows.Text(func(o *observation) string { return syscallName(o.nr) }),
	"stack":       rows.List(func(o *observation) any { return o.stack.value }),
	"complete":    rows.Bool(func(o *observation) bool { return o.stack.complete }),
	"goroutine":   rows.Count(func(o *observation) int64 { return int64(o.goroutine) }),
}, func(o *observation) *container.Container { return process.ContainerOf(o.process.PID) })

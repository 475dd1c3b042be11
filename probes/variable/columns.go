package variable

import (
	"endoscope/planner/catalog"
	"endoscope/probes/container"
	"endoscope/probes/process"
	"endoscope/probes/rows"
)

// Stream is the one stream of this package.
const Stream = catalog.VariableValue

// observation is the value of a variable at one time.
type observation struct {
	time       int64 // boot clock
	subject    *subject
	name       string // name of the variable as in the query
	module     string
	value      value
	tid        int    // 0 for a sample
	threadName string // thread that wrote
	function   string // "": unknown
	line       int    // 0: none
}

// table encodes the rows. Thread and function_name are those that wrote, or the
// ones a local variable belongs to; NULL for a sample.
var table = rows.NewTable(Stream, container.Extend(rows.Columns[observation]{
	"timestamp":     rows.Time(func(o *observation) *int64 { return &o.time }),
	"pid":           rows.Int(func(o *observation) int64 { return int64(o.subject.process.PID) }),
	"tid":           rows.Count(func(o *observation) int64 { return int64(o.tid) }),
	"process":       rows.String(func(o *observation) string { return o.subject.process.Comm }),
	"thread_name":   rows.TextOr(func(o *observation) (string, bool) { return o.threadName, o.tid != 0 }),
	"exe":           rows.Text(func(o *observation) string { return o.subject.process.Exe }),
	"var_name":      rows.String(func(o *observation) string { return o.name }),
	"var_value":     rows.IntOr(func(o *observation) (int64, bool) { return o.value.signed() }),
	"var_unsigned":  rows.IntOr(func(o *observation) (int64, bool) { return o.value.unsigned() }),
	"var_real":      rows.RealOr(func(o *observation) (float64, bool) { return o.value.real, o.value.isReal }),
	"var_text":      rows.TextOr(func(o *observation) (string, bool) { return o.value.text, o.value.isText }),
	"function_name": rows.Text(func(o *observation) string { return o.function }),
	"line":          rows.Count(func(o *observation) int64 { return int64(o.line) }),
	"module":        rows.String(func(o *observation) string { return o.module }),
}, func(o *observation) *container.Container { return process.ContainerOf(o.subject.process.PID) }))

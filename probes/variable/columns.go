package variable

import (
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Stream is the one stream of this package.
const Stream = "variable_value"

// Columns are its columns, the time of the write or sample first. var_value is a
// whole number, a pointer, a boolean or the number of an enumeration's value, and
// else NULL; var_real a real number, or what is nearest to a whole one; var_text the
// value as its language writes it. The thread and function_name are those that
// wrote, or whose variable it is: a sample has none. line is that before which a
// variable of a function was found to have the value, and else NULL.
var Columns = []types.Field{
	{Name: "timestamp", Type: types.Timestamp},
	{Name: "pid", Type: types.Bigint},
	{Name: "tid", Type: types.Bigint},
	{Name: "process", Type: types.Varchar},
	{Name: "thread_name", Type: types.Varchar},
	{Name: "exe", Type: types.Varchar},
	{Name: "var_name", Type: types.Varchar},
	{Name: "var_value", Type: types.Bigint},
	{Name: "var_real", Type: types.Double},
	{Name: "var_text", Type: types.Varchar},
	{Name: "function_name", Type: types.Varchar},
	{Name: "line", Type: types.Bigint},
	{Name: "module", Type: types.Varchar},
}

// observation is a value that a variable has at an instant.
type observation struct {
	time       int64 // boot clock
	subject    *subject
	name       string // of the variable, as it was asked for
	module     string
	value      value
	tid        int    // 0: of a sample
	threadName string // of a write
	function   string // "": not known
	line       int    // 0: none
}

// rows makes batches of observations.
type rows struct {
	batch.Filler
	names  []string // of the columns
	offset int64    // from the boot clock to the epoch
}

func newRows(spec *plan.Acquire, offset int64) (*rows, error) {
	r := &rows{offset: offset}
	for _, want := range spec.Out.Fields {
		i := types.Schema{Fields: Columns}.Index(want.Name)
		if i < 0 || Columns[i].Type != want.Type {
			return nil, plan.Errorf(spec.Start, spec.Stop, "%s has no column %s of type %s", Stream, want.Name, want.Type)
		}
		r.names = append(r.names, want.Name)
	}
	r.Filler = batch.NewFiller(spec.Out.Types())
	return r, nil
}

// add makes a row.
func (r *rows) add(o *observation) {
	b := r.Row()
	for i, name := range r.names {
		c := &b.Cols[i]
		switch name {
		case "timestamp":
			c.Int = append(c.Int, o.time+r.offset)
		case "pid":
			c.Int = append(c.Int, int64(o.subject.process.PID))
		case "tid":
			r.Number(c, int64(o.tid))
		case "process":
			c.Code = append(c.Code, c.Dict.Code(o.subject.process.Comm))
		case "thread_name":
			r.TextOr(c, o.threadName, o.tid != 0)
		case "exe":
			r.Text(c, o.subject.process.Exe)
		case "var_name":
			c.Code = append(c.Code, c.Dict.Code(o.name))
		case "var_value":
			if !o.value.isNumber {
				c.Nulls.Set(b.N)
			}
			c.Int = append(c.Int, o.value.number)
		case "var_real":
			if !o.value.isReal {
				c.Nulls.Set(b.N)
			}
			c.Float = append(c.Float, o.value.real)
		case "var_text":
			r.TextOr(c, o.value.text, o.value.isText)
		case "function_name":
			r.Text(c, o.function)
		case "line":
			r.Number(c, int64(o.line))
		case "module":
			c.Code = append(c.Code, c.Dict.Code(o.module))
		}
	}
	r.Done()
}

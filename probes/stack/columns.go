package stack

import (
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Stream is the one stream of this package.
const Stream = "stack_sample"

// Columns are its columns, the time of the sample first. stack is a list of
// frames, leaf first, each a list of the function's name, its module and its
// origin, 'user' or 'system'. complete is false where the stack does not reach
// the thread's first function. syscall is NULL in user mode. Goroutines that have
// no thread have rows of their own: with a number, and no tid and thread_name.
var Columns = []types.Field{
	{Name: "timestamp", Type: types.Timestamp},
	{Name: "pid", Type: types.Bigint},
	{Name: "tid", Type: types.Bigint},
	{Name: "process", Type: types.Varchar},
	{Name: "thread_name", Type: types.Varchar},
	{Name: "exe", Type: types.Varchar},
	{Name: "state", Type: types.Varchar},
	{Name: "syscall", Type: types.Varchar},
	{Name: "stack", Type: types.List},
	{Name: "complete", Type: types.Boolean},
	{Name: "goroutine", Type: types.Bigint},
}

// Positions in Columns.
const (
	colTime = iota
	colPID
	colTID
	colProcess
	colThread
	colExe
	colState
	colSyscall
	colStack
	colComplete
	colGoroutine
)

// rows makes batches of observations.
type rows struct {
	batch.Filler
	cols   []int // for each column of the batch its position in Columns
	offset int64 // from the boot clock to the epoch
}

func newRows(spec *plan.Acquire, offset int64) (*rows, error) {
	r := &rows{offset: offset}
	for _, want := range spec.Out.Fields {
		i := types.Schema{Fields: Columns}.Index(want.Name)
		if i < 0 || Columns[i].Type != want.Type {
			return nil, plan.Errorf(spec.Start, spec.Stop, "%s has no column %s of type %s", Stream, want.Name, want.Type)
		}
		r.cols = append(r.cols, i)
	}
	r.Filler = batch.NewFiller(spec.Out.Types())
	return r, nil
}

// add makes a row.
func (r *rows) add(o *observation) {
	b := r.Row()
	for i, col := range r.cols {
		c := &b.Cols[i]
		switch col {
		case colTime:
			c.Int = append(c.Int, int64(o.time)+r.offset)
		case colPID:
			c.Int = append(c.Int, int64(o.process.PID))
		case colTID:
			r.Number(c, int64(o.tid))
		case colProcess:
			c.Code = append(c.Code, c.Dict.Code(o.process.Comm))
		case colThread:
			r.Text(c, o.name)
		case colExe:
			r.Text(c, o.process.Exe)
		case colState:
			c.Code = append(c.Code, c.Dict.Code(o.state.String()))
		case colSyscall:
			r.Text(c, syscallName(o.nr))
		case colStack:
			c.Any = append(c.Any, o.stack.value)
		case colComplete:
			c.Bool = append(c.Bool, o.stack.complete)
		case colGoroutine:
			r.Number(c, int64(o.goroutine))
		}
	}
	r.Done()
}

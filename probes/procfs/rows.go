package procfs

import (
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"

	"golang.org/x/sys/unix"
)

// cell is a value of the row being made. The zero cell is NULL.
type cell struct {
	set bool
	i   int64
	f   float64
	s   string
}

// rows makes batches of a specification's columns from rows of a stream's.
// A sampler sets the cells of a row, by their positions in Columns, and emits it.
type rows struct {
	sink   probes.Sink // nil: rows are dropped
	from   []int       // for each column of the batch, its position in Columns
	cells  []cell
	pool   *batch.Pool
	batch  *batch.Batch
	denied uint64 // readings that another user's process did not allow
}

func newRows(stream string, out types.Schema) (*rows, error) {
	all := Columns[stream]
	r := &rows{cells: make([]cell, len(all))}
	for _, want := range out.Fields {
		i := types.Schema{Fields: all}.Index(want.Name)
		if i < 0 || all[i].Type != want.Type {
			return nil, plan.Errorf(-1, -1, "%s has no column %s of type %s", stream, want.Name, want.Type)
		}
		r.from = append(r.from, i)
	}
	r.pool = batch.NewPool(out.Types())
	return r, nil
}

// wants reports whether the column at a position of Columns is asked for.
func (r *rows) wants(column int) bool {
	for _, i := range r.from {
		if i == column {
			return true
		}
	}
	return false
}

func (r *rows) int(column int, v int64)     { r.cells[column] = cell{set: true, i: v} }
func (r *rows) count(column int, v uint64)  { r.cells[column] = cell{set: true, i: int64(v)} }
func (r *rows) float(column int, v float64) { r.cells[column] = cell{set: true, f: v} }
func (r *rows) str(column int, v string)    { r.cells[column] = cell{set: true, s: v} }

// refusal counts err if it is one of rights; other errors of a process's files
// mean that it has just ended.
func (r *rows) refusal(err error) {
	if err == unix.EACCES || err == unix.EPERM {
		r.denied++
	}
}

// emit ends the row. Cells that were not set since the last row are NULL.
func (r *rows) emit() {
	if r.sink != nil {
		if r.batch == nil {
			r.batch = r.pool.Get()
		}
		for i, from := range r.from {
			r.append(&r.batch.Cols[i], &r.cells[from])
		}
		if r.batch.N++; r.batch.N == batch.MaxRows {
			r.flush()
		}
	}
	clear(r.cells)
}

func (r *rows) append(c *batch.Column, v *cell) {
	if !v.set {
		c.Append(r.batch.N, types.NullOf(c.Type))
		return
	}
	switch c.Type.Physical() {
	case types.PhysInt:
		c.Int = append(c.Int, v.i)
	case types.PhysFloat:
		c.Float = append(c.Float, v.f)
	case types.PhysCode:
		c.Code = append(c.Code, c.Dict.Code(v.s))
	}
}

// flush pushes the rows made so far.
func (r *rows) flush() {
	if r.batch == nil {
		return
	}
	r.pool.Seal(r.batch)
	r.sink.Push(r.batch)
	r.batch = nil
}

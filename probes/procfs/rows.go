package procfs

import (
	"slices"

	"endoscope/operators/batch"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/container"
	"endoscope/probes/process"
	"endoscope/probes/rows"

	"golang.org/x/sys/unix"
)

// tables define the rows of the streams of this package:
//
//   - Percentages are 0 to 100; percent_cpu is 100 for each CPU used.
//   - cpu_usage, cpu_core_usage: busy = 100 - idle - iowait = user (with nice
//     and guests) + system (with interrupts) + steal.
//   - memory_usage, in bytes: used = total - available, which is what programs
//     could have without swapping; cached is the page cache.
//   - process_usage: rss and vsize in bytes; faults, bytes and switches count
//     from the start of the process. The bytes are those that reached storage.
//     The switches are those of threads that were alive at the first sample or
//     started later.
//   - thread_usage: state is the kernel's letter (R, S, D, T, t, Z, I);
//     run_delay is the time that the thread has waited for a CPU since it began.
//   - disk_usage: whole block devices that have done any I/O since boot.
//   - pressure: shares of time in which some, or all (full), tasks waited for
//     the resource; avg10, avg60 and avg300 are the kernel's averages over so
//     many seconds, some_percent and full_percent those of the rate window.
var tables = func() map[string]*rows.Table[rows.Row] {
	out := map[string]*rows.Table[rows.Row]{}
	for _, stream := range []string{catalog.CPUUsage, catalog.CPUCoreUsage, catalog.MemoryUsage, catalog.ProcessUsage,
		catalog.ThreadUsage, catalog.DiskUsage, catalog.NetworkUsage, catalog.Pressure} {
		out[stream] = rows.Values(stream)
	}
	return out
}()

// output encodes rows. A sampler sets the cells of a row, by their positions in
// the catalog, and emits it.
type output struct {
	sink   probes.Sink // nil: rows are dropped
	writer *rows.Writer[rows.Row]
	row    rows.Row
	asked  []bool // by position: the column is requested
	denied uint64 // readings that another user's process did not permit
}

func newOutput(spec *plan.Acquire) (*output, error) {
	fields := tables[spec.Stream].Fields()
	o := &output{row: make(rows.Row, len(fields))}
	for _, f := range fields {
		o.asked = append(o.asked, spec.Out.Index(f.Name) >= 0)
	}
	var err error
	if o.writer, err = tables[spec.Stream].Writer(spec, 0); err != nil {
		return nil, err
	}
	o.writer.Push = func(b *batch.Batch) { o.sink.Push(b) }
	return o, nil
}

// wants reports whether a column is requested.
func (o *output) wants(column int) bool { return o.asked[column] }

func (o *output) int(column int, v int64)     { o.row[column] = types.Int(v) }
func (o *output) count(column int, v uint64)  { o.row[column] = types.Int(int64(v)) }
func (o *output) float(column int, v float64) { o.row[column] = types.Float(v) }
func (o *output) str(column int, v string)    { o.row[column] = types.Str(v) }

// container sets the columns of the container of a process, which are at these positions.
func (o *output) container(columns []int, pid int) {
	if !slices.ContainsFunc(columns, o.wants) {
		return
	}
	c := process.ContainerOf(pid)
	for i, name := range container.Columns {
		if c != nil && c.Get(name) != "" {
			o.str(columns[i], c.Get(name))
		}
	}
}

// refusal counts err if it is about permissions; other errors of a process's
// files mean that it has just ended.
func (o *output) refusal(err error) {
	if err == unix.EACCES || err == unix.EPERM {
		o.denied++
	}
}

// emit ends the row. Cells not set since the last row are NULL.
func (o *output) emit() {
	if o.sink != nil {
		o.writer.Add(&o.row)
	}
	clear(o.row)
}

// flush pushes the rows so far.
func (o *output) flush() { o.writer.Flush() }

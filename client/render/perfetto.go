package render

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"

	"endoscope/client/render/trace"
	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// perfettoRenderer writes a trace for ui.perfetto.dev and trace_processor. What a row becomes
// depends on the columns:
//
//	timestamp, event, function_name, tid    ENTER begins a slice of the thread; LEAVE and
//	                                        UNWIND end it; GAP ends all that are open
//	timestamp, duration, a name, tid        a complete slice
//	timestamp, var_name, var_value          a counter for each variable
//	timestamp and other numbers             a counter for each number and each text of the row
//	timestamp and a name                    an instant
//
// Other columns are arguments. Threads are grouped by pid. Rows are written as they come:
// the tool that reads the trace sorts it.
type perfettoRenderer struct {
	machine
	trace *trace.Writer
	cols  []wire.Column
	kind  func(r *perfettoRenderer, b *batch.Batch, row int)

	// Columns; -1: the result does not have it.
	time, start, duration, event, name, pid, tid, goroutine, process, thread int

	values []int // of counters
	texts  []int // of counters: texts that distinguish them
	args   []int

	tracks  map[trackKey]*track
	clock   clock
	text    []byte // scratch
	untimed int    // rows without a time
	stray   int    // ends of slices that began before the trace
}

// trackKey identifies a track: of a process, a thread, a goroutine, or a counter.
type trackKey struct {
	kind     byte
	pid, tid int64
	name     string
}

type track struct {
	uuid uint64
	open int // slices
}

// results numbers the results of this process: a trace may hold several.
var results atomic.Uint32

func init() {
	define(Perfetto, implementation{endings: []string{".pftrace", ".perfetto-trace"}, binary: true,
		new: func(w io.Writer, cols []wire.Column, o Options) (Renderer, error) { return newPerfetto(w, cols) }})
}

const perfettoHint = "it needs timestamp and one of: event, function_name and tid; function_name, duration and tid; var_name and var_value; a number; a name"

func newPerfetto(w io.Writer, cols []wire.Column) (*perfettoRenderer, error) {
	r := &perfettoRenderer{machine: machine{w: w}, cols: cols, trace: trace.NewWriter(results.Add(1)), tracks: map[trackKey]*track{}}
	r.time = columnOf(cols, types.Timestamp, "timestamp", "window_end", "window_start", "")
	r.start = columnOf(cols, types.Timestamp, "start_time")
	r.duration = columnOf(cols, types.Duration, "duration")
	r.event = columnOf(cols, types.Varchar, "event")
	r.name = columnOf(cols, types.Varchar, "function_name", "handler", "var_name", "name")
	r.pid, r.tid = columnOf(cols, types.Bigint, "pid"), columnOf(cols, types.Bigint, "tid")
	r.goroutine = columnOf(cols, types.Bigint, "goroutine")
	r.process, r.thread = columnOf(cols, types.Varchar, "process"), columnOf(cols, types.Varchar, "thread_name")
	if r.time < 0 {
		return nil, misfitf(perfettoHint, "%s: no column of the result is a TIMESTAMP", Perfetto)
	}
	used := []int{r.time, r.start, r.duration, r.event, r.name, r.pid, r.tid, r.goroutine, r.process, r.thread}
	for i, c := range cols {
		switch {
		case slices.Contains(used, i) && (i != r.duration || r.tid >= 0):
		case c.Type.Numeric() && (c.Name == "var_value" || !slices.Contains(identifying, c.Name)):
			r.values = append(r.values, i)
		case c.Type == types.Varchar:
			r.texts = append(r.texts, i)
		}
		if !slices.Contains(used, i) {
			r.args = append(r.args, i)
		}
	}
	onThread := r.tid >= 0 || r.goroutine >= 0
	switch {
	case r.event >= 0 && r.name >= 0 && onThread:
		r.kind = (*perfettoRenderer).callEvent
	case r.duration >= 0 && onThread:
		r.kind = (*perfettoRenderer).complete
	case len(r.values) > 0:
		r.kind = (*perfettoRenderer).counters
		if r.name >= 0 {
			r.texts = append([]int{r.name}, r.texts...)
		}
	case r.name >= 0 || r.process >= 0:
		r.kind = (*perfettoRenderer).instant
	default:
		return nil, misfitf(perfettoHint, "%s: the result has a time, but nothing that happened then", Perfetto)
	}
	return r, nil
}

// columnOf returns the first column of a type with one of the names, in the order of names,
// or -1. The name "" is that of every column.
func columnOf(cols []wire.Column, t types.Type, names ...string) int {
	for _, name := range names {
		for i, c := range cols {
			if c.Type == t && (name == "" || c.Name == name) {
				return i
			}
		}
	}
	return -1
}

func (r *perfettoRenderer) Rows(b *batch.Batch, preview bool) error {
	if preview {
		return nil
	}
	for i := range b.Len() {
		row := b.Row(i)
		if t := &b.Cols[r.time]; t.Nulls.Get(row) || t.Int[row] < 0 {
			r.untimed++
			continue
		}
		r.kind(r, b, row)
	}
	return r.write()
}

// write writes what has been collected.
func (r *perfettoRenderer) write() error {
	r.buf, r.trace.Out = r.trace.Out, r.buf
	err := r.flush()
	r.buf, r.trace.Out = r.trace.Out, r.buf
	return err
}

func (r *perfettoRenderer) End() error { return r.write() }

// Remark implements Remarker.
func (r *perfettoRenderer) Remark() string {
	var open int
	for _, t := range r.tracks {
		open += t.open
	}
	var said []string
	for _, n := range []struct {
		n    int
		text string
	}{{r.untimed, "rows without a time, left out"}, {r.stray, "ends of calls that began before, left out"}, {open, "calls that did not end"}} {
		if n.n > 0 {
			said = append(said, fmt.Sprintf("%s: %d", n.text, n.n))
		}
	}
	if said == nil {
		return ""
	}
	return strings.Join(said, "; ")
}

// callEvent is a row of function_call.
func (r *perfettoRenderer) callEvent(b *batch.Batch, row int) {
	t, at := r.threadOf(b, row), uint64(b.Cols[r.time].Int[row])
	switch textAt(b, r.event, row) {
	case "ENTER":
		t.open++
		r.trace.Event(at, t.uuid, trace.Begin, r.nameOf(b, row))
		r.arguments(b, row)
		r.trace.End()
	case "LEAVE", "UNWIND":
		if t.open == 0 {
			r.stray++
			return
		}
		t.open--
		r.trace.Event(at, t.uuid, trace.End, "")
		r.arguments(b, row)
		r.trace.End()
	case "GAP":
		for ; t.open > 0; t.open-- {
			r.trace.Event(at, t.uuid, trace.End, "")
			r.trace.End()
		}
		r.trace.Event(at, t.uuid, trace.Instant, "GAP")
		r.trace.End()
	default:
		r.instant(b, row)
	}
}

// complete is a row with a duration.
func (r *perfettoRenderer) complete(b *batch.Batch, row int) {
	if b.Cols[r.duration].Nulls.Get(row) {
		r.instant(b, row)
		return
	}
	t, took := r.threadOf(b, row), max(0, b.Cols[r.duration].Int[row])
	start := b.Cols[r.time].Int[row] - took // timestamp is the end
	if r.start >= 0 && !b.Cols[r.start].Nulls.Get(row) {
		start = b.Cols[r.start].Int[row]
	}
	start = max(0, start)
	r.trace.Event(uint64(start), t.uuid, trace.Begin, r.nameOf(b, row))
	r.arguments(b, row)
	r.trace.End()
	r.trace.Event(uint64(start)+uint64(took), t.uuid, trace.End, "")
	r.trace.End()
}

// instant is a row without an extent.
func (r *perfettoRenderer) instant(b *batch.Batch, row int) {
	r.trace.Event(uint64(b.Cols[r.time].Int[row]), r.threadOf(b, row).uuid, trace.Instant, r.nameOf(b, row))
	r.arguments(b, row)
	r.trace.End()
}

// counters is a row whose numbers are values over time.
func (r *perfettoRenderer) counters(b *batch.Batch, row int) {
	of := ""
	for _, c := range r.texts {
		if !b.Cols[c].Nulls.Get(row) && r.cols[c].Name != "exe" && r.cols[c].Name != "module" && r.cols[c].Name != "var_text" {
			if of != "" {
				of += " "
			}
			of += textAt(b, c, row)
		}
	}
	for _, c := range r.values {
		col := &b.Cols[c]
		if col.Nulls.Get(row) || r.cols[c].Name == "var_real" && r.integer(b, row) {
			continue
		}
		name := r.cols[c].Name
		switch {
		case name == "var_value" || name == "var_real":
			name = of
		case of != "":
			name += " [" + of + "]"
		}
		t := r.counter(b, row, name, r.cols[c].Type)
		switch at := uint64(b.Cols[r.time].Int[row]); {
		case col.Type == types.Double:
			r.trace.Real(at, t.uuid, col.Float[row])
		case col.Type.Unsigned() && col.Int[row] < 0: // counters are signed or floating
			r.trace.Real(at, t.uuid, col.Type.Float(col.Int[row]))
		default:
			r.trace.Count(at, t.uuid, col.Int[row])
		}
	}
}

// integer reports whether a variable's value is there as an integer, too.
func (r *perfettoRenderer) integer(b *batch.Batch, row int) bool {
	i := columnOf(r.cols, types.Bigint, "var_value")
	return i >= 0 && !b.Cols[i].Nulls.Get(row)
}

func (r *perfettoRenderer) nameOf(b *batch.Batch, row int) string {
	for _, c := range []int{r.name, r.event, r.process} {
		if c >= 0 && !b.Cols[c].Nulls.Get(row) {
			return textAt(b, c, row)
		}
	}
	return "(unknown)"
}

// textAt returns a text; "" if it is NULL.
func textAt(b *batch.Batch, c, row int) string {
	col := &b.Cols[c]
	if col.Nulls.Get(row) {
		return ""
	}
	return col.Values[col.Code[row]]
}

// intAt returns a number; 0 if there is no such column, or it is NULL.
func intAt(b *batch.Batch, c, row int) int64 {
	if c < 0 || b.Cols[c].Nulls.Get(row) {
		return 0
	}
	return b.Cols[c].Int[row]
}

// threadOf returns the track of a row's goroutine, else thread, else process.
func (r *perfettoRenderer) threadOf(b *batch.Batch, row int) *track {
	pid := intAt(b, r.pid, row)
	key := trackKey{'p', pid, 0, ""}
	switch {
	case intAt(b, r.goroutine, row) != 0:
		key.kind, key.tid = 'g', intAt(b, r.goroutine, row)
	case intAt(b, r.tid, row) != 0:
		key.kind, key.tid = 't', intAt(b, r.tid, row)
	}
	if t := r.tracks[key]; t != nil {
		return t
	}
	parent := uint64(0)
	if key.kind != 'p' && r.pid >= 0 {
		parent = r.processOf(b, row, pid).uuid
	}
	t := r.newTrack(key)
	switch key.kind {
	case 'g':
		r.trace.Describe(t.uuid, parent, fmt.Sprint("goroutine ", key.tid))
	case 't':
		name := ""
		if r.thread >= 0 {
			name = textAt(b, r.thread, row)
		}
		r.trace.Thread(t.uuid, parent, pid, key.tid, name)
	default:
		r.describeProcess(t, b, row, pid)
	}
	return t
}

func (r *perfettoRenderer) processOf(b *batch.Batch, row int, pid int64) *track {
	key := trackKey{'p', pid, 0, ""}
	t := r.tracks[key]
	if t == nil {
		t = r.newTrack(key)
		r.describeProcess(t, b, row, pid)
	}
	return t
}

func (r *perfettoRenderer) describeProcess(t *track, b *batch.Batch, row int, pid int64) {
	name := ""
	if r.process >= 0 {
		name = textAt(b, r.process, row)
	}
	if pid == 0 {
		if name == "" {
			name = "events"
		}
		r.trace.Describe(t.uuid, 0, name)
		return
	}
	r.trace.Process(t.uuid, pid, name)
}

// counter returns the track of a number over time.
func (r *perfettoRenderer) counter(b *batch.Batch, row int, name string, typ types.Type) *track {
	key := trackKey{'c', intAt(b, r.pid, row), 0, name}
	t := r.tracks[key]
	if t != nil {
		return t
	}
	parent := uint64(0)
	if key.pid != 0 {
		parent = r.processOf(b, row, key.pid).uuid
	}
	t = r.newTrack(key)
	r.trace.Counter(t.uuid, parent, name, typ == types.Duration)
	return t
}

func (r *perfettoRenderer) newTrack(key trackKey) *track {
	t := &track{uuid: r.trace.Track(len(r.tracks) + 1)}
	r.tracks[key] = t
	return t
}

// arguments adds the other columns of a row to the event that has been begun.
func (r *perfettoRenderer) arguments(b *batch.Batch, row int) {
	for _, c := range r.args {
		col, name := &b.Cols[c], r.cols[c].Name
		switch {
		case col.Nulls.Get(row):
		case col.Type == types.Boolean:
			r.trace.Bool(name, col.Bool[row])
		case col.Type == types.Bigint, col.Type == types.Duration:
			r.trace.Int(name, col.Int[row])
		case col.Type == types.Ubigint:
			r.trace.Uint(name, uint64(col.Int[row]))
		case col.Type == types.Double:
			r.trace.Double(name, col.Float[row])
		case col.Type == types.Varchar:
			r.trace.Text(name, col.Values[col.Code[row]])
		default:
			r.text = r.clock.appendJSON(r.text[:0], col, row)
			r.trace.Text(name, strings.Trim(string(r.text), `"`))
		}
	}
}

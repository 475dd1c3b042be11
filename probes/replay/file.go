package replay

import (
	"io"
	"math"
	"path/filepath"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/rows"
)

// file replays one file.
type file struct {
	path    string
	csv     bool
	names   []string  // the file's own columns
	columns []*column // requested columns
	types   []types.Type
	rows    int     // in a batch
	time    *column // event time, requested or not; nil: the line number
	untimed tally   // rows without event time
}

// prepareFile returns the source of file(path).
func prepareFile(spec *plan.Acquire) (probes.Source, error) {
	if len(spec.Args) != 1 || spec.Args[0].V.Type != types.Varchar || spec.Args[0].V.IsNull {
		return nil, plan.Errorf(spec.Start, spec.Stop, "file takes the path of a file").WithHint("file('in.csv')")
	}
	path := spec.Args[0].V.S
	in, err := open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	l, err := discover(in)
	if err != nil {
		return nil, err
	}
	f := &file{path: path, csv: filepath.Ext(path) == ".csv", types: spec.Out.Types(), rows: batch.RowsFor(len(spec.Out.Fields))}
	all := l.schema.Fields
	if l.line {
		all = all[:len(all)-1]
	} else {
		f.time = &column{from: l.schema.Time, typ: types.Timestamp, format: l.formats[l.schema.Time], name: timeColumn}
	}
	for _, field := range all {
		f.names = append(f.names, field.Name)
	}
	for _, want := range spec.Out.Fields {
		i := l.schema.Index(want.Name)
		if i < 0 || l.schema.Fields[i].Type != want.Type {
			return nil, plan.Errorf(spec.Start, spec.Stop, "%s has no column %s of type %s", path, want.Name, want.Type)
		}
		col := &column{from: i, typ: want.Type, format: l.formats[i], name: want.Name, eventTime: i == l.schema.Time}
		f.columns = append(f.columns, col)
	}
	cost, err := f.calibrate(in)
	if err != nil {
		return nil, err
	}
	return &source{
		filter:  spec.Filter,
		site:    probes.Site{Provider: "replay", Function: path, Method: "replay", CostNs: cost},
		produce: f.replay,
	}, nil
}

// calibrate measures the cost of a row, in ns, on the first rows; 0 if there is
// none.
func (f *file) calibrate(in io.ReaderAt) (float64, error) {
	first, err := newRecords(io.NewSectionReader(in, 0, math.MaxInt64), f.csv, f.names)
	if err != nil {
		return 0, err
	}
	n := 0
	w := f.writer(func(b *batch.Batch) {
		n += b.N
		b.Release()
	})
	start := time.Now()
	for n < SampleRows && f.fill(w, first, nil) == nil {
	}
	for _, col := range f.columns { // faults found here will be found again
		col.bad = tally{}
	}
	f.untimed = tally{}
	if n == 0 {
		return 0, nil
	}
	return float64(time.Since(start)) / float64(n), nil
}

// replay pushes the file's rows in its order. Data appended meanwhile is
// ignored.
func (f *file) replay(sink probes.Sink, stop <-chan struct{}) error {
	in, err := open(f.path)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return plan.Errorf(-1, -1, "%s cannot be read: %v", f.path, reason(err))
	}
	failed := func(err error) error {
		if err == io.EOF {
			return nil
		}
		return plan.Errorf(-1, -1, "%s: %v", f.path, reason(err))
	}
	begin := func() (records, error) {
		return newRecords(&wholeReader{in, info.Size(), 0}, f.csv, f.names)
	}
	var after []int64
	if f.time != nil {
		r, err := begin()
		if err == nil {
			after, err = f.prescan(r, stop)
		}
		if err != nil {
			return failed(err)
		}
	}
	r, err := begin()
	if err != nil {
		return failed(err)
	}
	// Faults are reported at their place among the rows, so that a query that ends by LIMIT
	// counts those before its last row only. Each split costs a batch: after maxSplits,
	// faults are reported before the batch in which they are.
	splits := 0
	w := f.writer(func(b *batch.Batch) {
		f.reportValues(sink)
		if splits == maxSplits {
			f.reportRows(r, sink)
		}
		sink.Push(b)
	})
	split := func() {
		if splits < maxSplits && f.pending(r) {
			w.Flush()
			f.reportRows(r, sink)
			splits++
		}
	}
	for i := 0; !stopped(stop); i++ {
		err := f.fill(w, r, split)
		w.Flush()
		f.reportRows(r, sink)
		if err != nil {
			return failed(err)
		}
		if f.time == nil {
			sink.Watermark(r.line() + 1)
		} else if i < len(after) && after[i] != math.MaxInt64 {
			sink.Watermark(after[i])
		}
	}
	return nil
}

// farthestTime limits the distance of event time from the epoch, in ns: 2236,
// or 1703. Windows extend ten years beyond the times in them, and must fit 64
// bits.
const farthestTime = math.MaxInt64 - 26*365*24*int64(time.Hour)

// at returns the event time of a row, if it has one.
func (f *file) at(cells []cell) (ns int64, ok bool) {
	ns, ok = f.time.time(cells[f.time.from])
	return ns, ok && -farthestTime <= ns && ns <= farthestTime
}

// prescan returns, for each batch, the least timestamp after it; for the last,
// after which there is none, the greatest number.
func (f *file) prescan(rows records, stop <-chan struct{}) ([]int64, error) {
	var least []int64 // by batch
	for n := 0; ; {
		cells, err := rows.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		t, ok := f.at(cells)
		if !ok {
			continue
		}
		if n%f.rows == 0 {
			if stopped(stop) {
				return nil, io.EOF
			}
			least = append(least, t)
		}
		n++
		last := &least[len(least)-1]
		*last = min(*last, t)
	}
	// Turn the least of each batch into the least of all that follow it.
	following := int64(math.MaxInt64)
	for i := len(least) - 1; i >= 0; i-- {
		least[i], following = following, min(following, least[i])
	}
	return least, nil
}

// writer returns the writer of the file's rows.
func (f *file) writer(push func(*batch.Batch)) *rows.Writer[record] {
	columns := make([]rows.Column[record], len(f.columns))
	for i, col := range f.columns {
		columns[i] = col.appender()
	}
	w := rows.NewWriter(f.types, columns, 0)
	w.Push = push
	return w
}

// maxSplits limits how often the faults of a file divide a batch.
const maxSplits = 64

// fill writes rows until a batch is full, and calls split, if it is not nil, before each. A
// row without event time is skipped.
func (f *file) fill(w *rows.Writer[record], in records, split func()) error {
	for n := 0; n < f.rows; {
		cells, err := in.next()
		if err != nil {
			return err
		}
		line := in.line()
		at := line
		if f.time != nil {
			var ok bool
			if at, ok = f.at(cells); !ok {
				f.untimed.add(line)
				continue
			}
		}
		if split != nil {
			split()
		}
		w.Put(record{cells, line, at})
		n++
	}
	return nil
}

// pending reports whether a row that was read since the last report did not fit.
func (f *file) pending(in records) bool { return f.untimed.n > 0 || in.pending() }

// reportRows reports to the sink the rows that did not fit since the last call.
func (f *file) reportRows(in records, sink probes.Sink) {
	report := reporter(sink)
	in.faults(report)
	f.untimed.report(report, true, "row without a readable timestamp")
}

// reportValues reports to the sink the values of rows that did not fit since the last call.
func (f *file) reportValues(sink probes.Sink) {
	report := reporter(sink)
	for _, col := range f.columns {
		col.faults(report)
	}
}

func reporter(sink probes.Sink) func(fault) {
	return func(ft fault) {
		if ft.row {
			sink.Lost(ft.cause, ft.n)
		} else {
			sink.Count(ft.cause, ft.n)
		}
	}
}

package render

import (
	"io"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// callBatch returns a full batch like those of a query on function_duration.
func callBatch() (*batch.Batch, []wire.Column) {
	cols := []wire.Column{
		{Name: "timestamp", Type: types.Timestamp}, {Name: "tid", Type: types.Bigint},
		{Name: "function_name", Type: types.Varchar}, {Name: "duration", Type: types.Duration},
		{Name: "ratio", Type: types.Double},
	}
	schema := make([]types.Type, len(cols))
	for i, c := range cols {
		schema[i] = c.Type
	}
	names := []string{"process_job", "handle_request", "fib", "cache_put"}
	b := batch.New(schema)
	for i := range int64(batch.MaxRows) {
		b.AppendRow(types.Time(1_760_000_000_000_000_000+i*1717), types.Int(4000+i%7),
			types.Str(names[i%4]), types.Dur(1000+i*37), types.Float(float64(i)/8))
	}
	return b, cols
}

func benchmark(b *testing.B, f Format) {
	rows, cols := callBatch()
	r := newRenderer(f, io.Discard, cols, Options{})
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Rows(rows, false); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*batch.MaxRows/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkCSV(b *testing.B)      { benchmark(b, CSV) }
func BenchmarkJSONL(b *testing.B)    { benchmark(b, JSONL) }
func BenchmarkJSON(b *testing.B)     { benchmark(b, JSON) }
func BenchmarkMarkdown(b *testing.B) { benchmark(b, Markdown) }
func BenchmarkTable(b *testing.B)    { benchmark(b, Table) }

func TestMachineFormatsAllocateNothingPerRow(t *testing.T) {
	rows, cols := callBatch()
	for _, f := range []Format{CSV, JSONL, JSON} {
		r := newRenderer(f, io.Discard, cols, Options{})
		if err := r.Rows(rows, false); err != nil { // the buffer grows once
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(20, func() { _ = r.Rows(rows, false) }); n != 0 {
			t.Errorf("%s: %v allocations for a batch of %d rows, want 0", f, n, rows.N)
		}
	}
}

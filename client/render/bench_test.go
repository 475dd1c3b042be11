package render

import (
	"fmt"
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

func BenchmarkArrow(b *testing.B)    { benchmark(b, Arrow) }
func BenchmarkParquet(b *testing.B)  { benchmark(b, Parquet) }
func BenchmarkPerfetto(b *testing.B) { benchmark(b, Perfetto) }

// BenchmarkPprof adds up samples of 64 stacks of 20 frames, each a value of its own as from
// another machine, or the same in each batch as from this one.
func BenchmarkPprof(b *testing.B) {
	cols := []wire.Column{{Name: "stack", Type: types.List}, {Name: "state", Type: types.Varchar}, {Name: "count", Type: types.Bigint}}
	stacks := make([]types.Value, 64)
	rows := func() *batch.Batch {
		out := batch.New([]types.Type{types.List, types.Varchar, types.Bigint})
		for i := range batch.MaxRows {
			out.AppendRow(stacks[i%len(stacks)], types.Str("RUN"), types.Int(1))
		}
		return out
	}
	for _, shared := range []bool{true, false} {
		b.Run(fmt.Sprintf("shared=%v", shared), func(b *testing.B) {
			renew := func() {
				for i := range stacks {
					functions := make([]string, 20)
					for k := range functions {
						functions[k] = fmt.Sprint("function_", (i>>(k/4))*31+k)
					}
					stacks[i] = stackOf(functions...)
				}
			}
			renew()
			same := rows()
			r := newRenderer(Pprof, io.Discard, cols, Options{})
			b.ReportAllocs()
			for b.Loop() {
				next := same
				if !shared {
					b.StopTimer()
					renew()
					next = rows()
					b.StartTimer()
				}
				if err := r.Rows(next, false); err != nil {
					b.Fatal(err)
				}
			}
			if err := r.End(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)*batch.MaxRows/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

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

package replay

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

const benchRows = 100_000

func benchFile(b *testing.B, name string) string {
	var text strings.Builder
	if name == "a.csv" {
		text.WriteString("timestamp,pid,process,duration,value\n")
	}
	for i := range benchRows {
		format := "%d,%d,process%d,%d,%d.25\n"
		if name != "a.csv" {
			format = `{"timestamp":%d,"pid":%d,"process":"process%d","duration":%d,"value":%d.25}` + "\n"
		}
		fmt.Fprintf(&text, format, 1_700_000_000_000_000_000+i*1000, i%100, i%50, i*17, i)
	}
	return write(b, name, text.String())
}

// counter is a sink that counts rows.
type counter struct {
	rows  int
	ended chan struct{}
}

func (c *counter) Push(b *batch.Batch)  { c.rows += b.N; b.Release() }
func (*counter) Partial(b *batch.Batch) { b.Release() }
func (c *counter) Watermark(int64)      {}
func (c *counter) Lost(string, uint64)  {}
func (c *counter) Count(string, uint64) {}
func (c *counter) End(error)            { close(c.ended) }

// BenchmarkReplay includes the first pass over the timestamps.
func BenchmarkReplay(b *testing.B) {
	for _, name := range []string{"a.csv", "a.jsonl"} {
		b.Run(name, func(b *testing.B) {
			spec := fileSpec(b, benchFile(b, name))
			src := prepare(b, spec).(*source)
			b.ReportAllocs()
			rows := 0
			for b.Loop() {
				c := &counter{ended: make(chan struct{})}
				if err := src.produce(c, nil); err != nil {
					b.Fatal(err)
				}
				rows += c.rows
			}
			b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

func BenchmarkSeries(b *testing.B) {
	spec := &plan.Acquire{Stream: "series", Args: []plan.Const{{V: types.Int(benchRows)}},
		Out: types.Schema{Fields: []types.Field{{Name: "n", Type: types.Bigint}}, Time: -1}}
	src := prepare(b, spec).(*source)
	for b.Loop() {
		if err := src.produce(&counter{}, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(benchRows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkOracle splits rows into strings, once, and converts nothing.
func BenchmarkOracle(b *testing.B) {
	b.Run("csv", func(b *testing.B) {
		path := benchFile(b, "a.csv")
		b.ReportAllocs()
		for b.Loop() {
			f, err := os.Open(path)
			if err != nil {
				b.Fatal(err)
			}
			r := csv.NewReader(f)
			r.ReuseRecord = true
			for err == nil {
				_, err = r.Read()
			}
			f.Close()
		}
		b.ReportMetric(float64(benchRows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	})
	b.Run("json", func(b *testing.B) {
		path := benchFile(b, "a.jsonl")
		b.ReportAllocs()
		for b.Loop() {
			f, err := os.Open(path)
			if err != nil {
				b.Fatal(err)
			}
			d := json.NewDecoder(f)
			for {
				var row map[string]json.RawMessage
				if err := d.Decode(&row); err == io.EOF {
					break
				} else if err != nil {
					b.Fatal(err)
				}
			}
			f.Close()
		}
		b.ReportMetric(float64(benchRows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	})
}

package graph

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/planner/types"
)

// journal writes down what a trigger does.
type journal struct{ strings.Builder }

func (j *journal) Activate(n int64, b *batch.Batch, row int) {
	fmt.Fprintf(j, "%d:%d ", n, b.Cols[0].Value(row).I)
}

func (j *journal) Deactivate(*batch.Batch, int) { j.WriteString("deactivate ") }

func (j *journal) Lost(cause string, n uint64) { fmt.Fprintf(j, "lost %d, %s ", n, cause) }

func TestTrigger(t *testing.T) {
	yes, no, null := types.Bool(true), types.Bool(false), types.NullOf(types.Boolean)
	for _, c := range []struct {
		name      string
		condition int
		batches   [][]types.Value // of conditions; the tuples are 1, 2, ...
		skip      bool            // every other tuple by selection
		want      string
	}{
		{"each tuple that satisfies it activates", 1, [][]types.Value{{yes, yes, yes}}, false, "1:1 2:2 3:3 "},
		{"the first that fails it deactivates", 1, [][]types.Value{{no, yes, no, no, yes, no}}, false, "1:2 deactivate 2:5 deactivate "},
		{"NULL fails it", 1, [][]types.Value{{yes, null, null, yes}}, false, "1:1 deactivate 2:4 "},
		{"changes lie between batches", 1, [][]types.Value{{yes}, {}, {no}, {no, yes}}, false, "1:1 deactivate 2:4 "},
		{"without a condition all do", -1, [][]types.Value{{no, null}, {yes}}, false, "1:1 2:2 3:3 "},
		{"rows that do not count are no tuples", 1, [][]types.Value{{yes, no, yes, no}}, true, "1:1 2:3 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			var j journal
			tr := NewTrigger(c.condition, &j)
			n := int64(0)
			for _, conditions := range c.batches {
				b := batch.New([]types.Type{types.Bigint, types.Boolean})
				var sel []uint16
				for i, v := range conditions {
					n++
					b.AppendRow(types.Int(n), v)
					if i%2 == 0 {
						sel = append(sel, uint16(i))
					}
				}
				if c.skip {
					b = b.View(sel)
				}
				if st, err := tr.Push(context.Background(), 0, b); st != operators.More || err != nil {
					t.Fatal(st, err)
				}
			}
			if j.String() != c.want {
				t.Errorf("did %q, want %q", j.String(), c.want)
			}
			if want := int64(strings.Count(c.want, ":")); tr.Activations() != want {
				t.Errorf("%d activations, want %d", tr.Activations(), want)
			}
		})
	}
}

func TestTriggerReportsLosses(t *testing.T) {
	var j journal
	tr := NewTrigger(-1, &j)
	for _, s := range []operators.Signal{{Kind: operators.Watermark, Time: 5}, {Kind: operators.Gap, Cause: "late", N: 3}, {Kind: operators.Tick}} {
		if st, err := tr.Signal(context.Background(), 0, s); st != operators.More || err != nil {
			t.Fatal(st, err)
		}
	}
	if want := "lost 3, late "; j.String() != want {
		t.Errorf("did %q, want %q", j.String(), want)
	}
}

type idle struct{}

func (idle) Activate(int64, *batch.Batch, int) {}

func (idle) Deactivate(*batch.Batch, int) {}

func (idle) Lost(string, uint64) {}

// BenchmarkTrigger pushes tuples that fail, as most do.
func BenchmarkTrigger(b *testing.B) {
	in := batch.New([]types.Type{types.Bigint, types.Boolean})
	for i := range batch.MaxRows {
		in.AppendRow(types.Int(int64(i)), types.Bool(false))
	}
	tr := NewTrigger(1, idle{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tr.Push(context.Background(), 0, in); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*batch.MaxRows/b.Elapsed().Seconds()/1e6, "Mrows/s")
}

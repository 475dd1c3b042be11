package agg

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"endoscope/operators/batch"
	"endoscope/operators/internal/testplan"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// partialBatches are partial rows of columns x and s of strings in a notation:
// rows by |, batches by a blank line.
func partialBatches(t testing.TB, p *plan.Partial, text string) (out []*batch.Batch) {
	t.Helper()
	for _, block := range strings.Split(text, ";") {
		b := batch.New(p.Out.Types())
		for _, row := range strings.Split(block, ",") {
			var vs []types.Value
			for i, f := range strings.Fields(row) {
				var n int64
				v := types.Str(f)
				if f == "null" {
					v = types.NullOf(p.Out.Fields[i].Type)
				} else if _, err := fmt.Sscan(f, &n); err == nil {
					v = types.Int(n)
				}
				vs = append(vs, v)
			}
			b.AppendRow(vs...)
		}
		out = append(out, b)
	}
	return out
}

func mergedText(p *plan.Partial, bs []*batch.Batch) string {
	var rows []string
	for _, b := range MergePartials(p, bs) {
		for i := range b.N {
			var row []string
			for c := range b.Cols {
				switch v := b.Cols[c].Value(i); {
				case v.IsNull:
					row = append(row, "null")
				case v.Type == types.Bytes:
					row = append(row, fmt.Sprintf("%x", v.S))
				case v.Type == types.Varchar:
					row = append(row, v.S)
				default:
					row = append(row, fmt.Sprint(v.I))
				}
			}
			rows = append(rows, strings.Join(row, " "))
		}
	}
	return strings.Join(rows, ", ")
}

// States of one group are merged into one; the property test of two stages covers
// the functions (TestStagesAgreeWithOracle).
func TestMergePartials(t *testing.T) {
	for _, c := range []struct {
		aggs string
		pane time.Duration
		in   string
		want string
	}{
		// Rows without values change nothing; NULL is a group, and so is "".
		{"count(*); min(x); max(x)", 0, "7 a 3 5 2 9 2, 7 null 1 0 0 0 0; 6 a 1 4 1 4 1, 8 null 2 -1 1 -1 1; 9 a 1 99 0 -99 0",
			"6 a 5 4 3 9 3, 7 null 3 -1 1 -1 1"},
		// Panes are kept apart.
		{"count(*)", 10, "0 a 1; 10 a 2; 0 a 4, 10 b 8", "0 a 5, 10 a 2, 10 b 8"},
		// Sums carry into their upper words.
		{"sum(x)", 0, "0 a -1 0 1; 0 a 1 0 1; 0 a -1 -1 1", "0 a -1 0 3"},
		{"stddev(x)", 0, "0 a 1 0 1 -1 -1 0; 0 a 1 0 1 1 0 0", "0 a 2 0 2 0 0 1"},
		{"first(x); last(x)", 0, "0 a 5 50 1 5 50 1; 0 a 4 40 1 6 60 2; 0 a 4 41 1 6 61 1", "0 a 4 40 3 6 61 4"},
		// Buckets have rows of their own, unless they are of the same ones.
		{"count(*); histogram(x)", 0, "0 a 3 0 0, 0 a 0 7 2, 0 a 0 8 1; 0 a 2 0 0, 0 a 0 7 5", "0 a 5 0 0, 0 a 0 7 7, 0 a 0 8 1"},
		// Samples of one bucket become those of a group: integers (01), 7 seven times, then 1 more once.
		{"count(*); median(x)", 0, "0 a 3 0 0 0 null, 0 a 0 7 7 2 null, 0 a 0 8 8 1 null; 0 a 2 0 0 0 null, 0 a 0 7 7 5 null", "0 a 5 0 0 8 010e0e0102"},
	} {
		n := testplan.GroupBy(testplan.Relation("t:timestamp s:varchar x:bigint"), "s", c.aggs)
		p, ok := plan.NewPartial(n.Keys, n.Aggs, c.pane)
		if !ok {
			t.Fatal(c.aggs)
		}
		if got := mergedText(p, partialBatches(t, p, c.in)); got != c.want {
			t.Errorf("%s: %s\nmerged: %s\nwant:   %s", c.aggs, c.in, got, c.want)
		}
		var before, after uint64
		for _, b := range partialBatches(t, p, c.in) {
			before += PartialEvents(p, b)
		}
		for _, b := range MergePartials(p, partialBatches(t, p, c.in)) {
			after += PartialEvents(p, b)
		}
		if strings.Contains(c.aggs, "count(*)") && before != after {
			t.Errorf("%s: rows stand for %d events, merged ones for %d", c.aggs, before, after)
		}
	}
}

// BenchmarkMergePartials merges 64 batches of the same 1,000 groups.
func BenchmarkMergePartials(b *testing.B) {
	n := testplan.GroupBy(testplan.Relation("t:timestamp s:varchar x:bigint"), "s", "count(*); sum(x); max(x)")
	p, _ := plan.NewPartial(n.Keys, n.Aggs, 0)
	one := batch.New(p.Out.Types())
	for i := range int64(1000) {
		one.AppendRow(types.Time(i), types.Str(fmt.Sprint("function ", i)), types.Int(1), types.Int(i), types.Int(0), types.Int(1), types.Int(i), types.Int(1))
	}
	for b.Loop() {
		all := make([]*batch.Batch, 64)
		for i := range all {
			all[i] = one.Retain()
		}
		if got := MergePartials(p, all); len(got) != 1 {
			b.Fatal(len(got))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64_000, "ns/row")
}

// Lists are keys by their elements.
func TestMergePartialsByLists(t *testing.T) {
	n := testplan.GroupBy(testplan.Relation("t:timestamp l:list"), "l", "count(*)")
	p, ok := plan.NewPartial(n.Keys, n.Aggs, 0)
	if !ok {
		t.Fatal("no partial by lists")
	}
	list := func(names ...string) types.Value {
		var vs []types.Value
		for _, name := range names {
			vs = append(vs, types.Str(name))
		}
		return types.ListOf(vs)
	}
	var bs []*batch.Batch
	for range 2 {
		b := batch.New(p.Out.Types())
		b.AppendRow(types.Time(1), list("a", "b"), types.Int(2))
		b.AppendRow(types.Time(1), list("a;b"), types.Int(3))
		b.AppendRow(types.Time(1), types.NullOf(types.List), types.Int(4))
		bs = append(bs, b)
	}
	counts := map[string]int64{}
	for _, b := range MergePartials(p, bs) {
		for i := range b.Len() {
			counts[testplan.Cell(b.Cols[1].Value(i))] += b.Cols[2].Value(i).I
		}
		if b.Len() != 3 {
			t.Errorf("%d groups", b.Len())
		}
	}
	if want := map[string]int64{"a,b": 4, "a;b": 6, "null": 8}; !maps.Equal(counts, want) {
		t.Errorf("%v, want %v", counts, want)
	}
}

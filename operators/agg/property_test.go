package agg

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/internal/testplan"
	_ "endoscope/operators/optest/seeds" // the same cases in every run
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// The property: for all rows, batches, selections, dictionaries and windows, an
// aggregate returns the same as a map of lists of rows.

const propertyColumns = "t:timestamp s:varchar z:varchar i:bigint f:double b:boolean d:duration window_start:timestamp window_end:timestamp"

var propertyAggs = []string{
	"count(*)", "count(s)", "count(distinct z)", "count(distinct f)", "sum(i)", "sum(f)", "sum(d)", "avg(i)", "avg(f)", "avg(d)",
	"min(i)", "max(i)", "min(s)", "max(z)", "min(f)", "max(f)", "min(b)", "max(b)", "min(t)", "max(d)",
	"stddev(i)", "variance(i)", "stddev(f)", "variance(d)", "stddev(d)",
	"quantile(i, 0.9)", "median(f)", "quantile(d, 0.0)", "first(s)", "last(i)", "first(f)", "last(b)", "first(d)", "last(z)",
	"histogram(i)", "histogram(i, -5.0, 20.0, 2.5)", "histogram(f)", "topk(z, 2)",
}

func TestAggregateProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := testplan.Relation(propertyColumns)
		keys := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"s", "z", "i", "f", "b", "d"}), 0, 4, rapid.ID).Draw(t, "keys")
		windowed := rapid.Bool().Draw(t, "windowed")
		if windowed {
			keys = rapid.Permutation(append(keys, "window_start", "window_end")).Draw(t, "order")
		}
		aggs := rapid.SliceOfN(rapid.SampledFrom(propertyAggs), 1, 6).Draw(t, "aggs")
		n := testplan.GroupBy(in, strings.Join(keys, " "), strings.Join(aggs, "; "))
		for i := range n.Aggs {
			if rapid.IntRange(0, 3).Draw(t, "filter") == 0 {
				n.Aggs[i].Filter = testplan.Column(in, "b")
			}
		}
		naive := &naiveAggregate{n: n, windowed: windowed, closed: math.MinInt64}
		got := &results{}
		op, err := New(n, got, &operators.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		pool := testplan.NewPool(in)
		for range rapid.IntRange(0, 8).Draw(t, "batches") {
			b := drawBatch(t, in, pool)
			naive.push(b)
			if _, err := op.Push(ctx, 0, b); err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "watermark") {
				wm := rapid.Int64Range(0, 60).Draw(t, "wm")
				naive.watermark(wm)
				if _, err := op.Signal(ctx, 0, operators.Signal{Kind: operators.Watermark, Time: wm}); err != nil {
					t.Fatal(err)
				}
			}
		}
		naive.watermark(math.MaxInt64)
		if err := op.Close(ctx, 0); err != nil {
			t.Fatal(err)
		}
		if got.late != naive.late {
			t.Errorf("%d rows late, not %d", got.late, naive.late)
		}
		compareRows(t, n, got.rows, naive.rows)
	})
}

func drawBatch(t *rapid.T, in *plan.Acquire, pool *batch.Pool) *batch.Batch {
	b := pool.Get()
	if rapid.IntRange(0, 2).Draw(t, "new dictionaries") == 0 {
		b = batch.New(in.Out.Types())
	}
	null := func(v types.Value) types.Value {
		if rapid.IntRange(0, 5).Draw(t, "null") == 0 {
			return types.NullOf(v.Type)
		}
		return v
	}
	str := rapid.SampledFrom([]string{"", "a", "b", "a much longer name than sixteen bytes", "a much longer name than sixteen bytes!"})
	num := rapid.OneOf(rapid.Int64Range(-3, 3), rapid.Int64Range(math.MinInt32, math.MaxInt32))
	for range rapid.IntRange(0, 20).Draw(t, "rows") {
		at := rapid.Int64Range(0, 60).Draw(t, "t")
		start := at / 10 * 10
		b.AppendRow(types.Time(at), null(types.Str(str.Draw(t, "s"))), null(types.Str(str.Draw(t, "z"))),
			null(types.Int(num.Draw(t, "i"))), null(types.Float(float64(num.Draw(t, "f"))/8)),
			null(types.Bool(rapid.Bool().Draw(t, "b"))), null(types.Dur(num.Draw(t, "d"))),
			types.Time(start), types.Time(start+10))
	}
	if rapid.Bool().Draw(t, "selection") {
		b.Sel = []uint16{}
		for r := range b.N {
			if rapid.Bool().Draw(t, "row") {
				b.Sel = append(b.Sel, uint16(r))
			}
		}
	}
	return b
}

// results are the rows that came out; a row of nil is a Flush.
type results struct {
	rows [][]types.Value
	late uint64
}

func (r *results) Push(_ context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	for i := range b.Len() {
		var row []types.Value
		for c := range b.Cols {
			row = append(row, b.Cols[c].Value(b.Row(i)))
		}
		r.rows = append(r.rows, row)
	}
	return operators.More, nil
}

func (r *results) Signal(_ context.Context, _ int, s operators.Signal) (operators.Status, error) {
	switch s.Kind {
	case operators.Flush:
		r.rows = append(r.rows, nil)
	case operators.Gap:
		r.late += s.N
	}
	return operators.More, nil
}

func (r *results) Close(context.Context, int) error { return nil }

// naiveAggregate keeps every row.
type naiveAggregate struct {
	n        *plan.Aggregate
	windowed bool
	order    []string
	groups   map[string][][]types.Value
	closed   int64
	late     uint64
	rows     [][]types.Value
}

func (a *naiveAggregate) push(b *batch.Batch) {
	end := len(b.Cols) - 1
	for i := range b.Len() {
		var row []types.Value
		for c := range b.Cols {
			row = append(row, b.Cols[c].Value(b.Row(i)))
		}
		if a.windowed && row[end].I <= a.closed {
			a.late++
			continue
		}
		key := fmt.Sprint(a.key(row))
		if a.groups == nil {
			a.groups = map[string][][]types.Value{}
		}
		if a.groups[key] == nil {
			a.order = append(a.order, key)
		}
		a.groups[key] = append(a.groups[key], row)
	}
}

func (a *naiveAggregate) key(row []types.Value) (key []types.Value) {
	for _, k := range a.n.Keys {
		key = append(key, row[k.(*plan.Col).Index])
	}
	return key
}

// watermark emits the windows that end at t or before.
func (a *naiveAggregate) watermark(t int64) {
	a.closed = max(a.closed, t)
	if !a.windowed {
		if t == math.MaxInt64 {
			if len(a.n.Keys) == 0 && a.order == nil {
				a.order = append(a.order, "")
			}
			a.emit(func([]types.Value) bool { return true })
			a.rows = append(a.rows, nil)
		}
		return
	}
	for end := int64(10); end <= 70 && end <= t; end += 10 {
		before := len(a.rows)
		a.emit(func(row []types.Value) bool { return row[len(row)-1].I == end })
		if len(a.rows) > before {
			a.rows = append(a.rows, nil)
		}
	}
}

func (a *naiveAggregate) emit(which func(row []types.Value) bool) {
	a.order = slices.DeleteFunc(a.order, func(key string) bool {
		rows := a.groups[key]
		if len(rows) > 0 && !which(rows[0]) {
			return false
		}
		var out []types.Value
		if len(rows) > 0 {
			out = a.key(rows[0])
		}
		for i := range a.n.Aggs {
			out = append(out, naive(&a.n.Aggs[i], rows))
		}
		a.rows = append(a.rows, out)
		delete(a.groups, key)
		return true
	})
}

// naive computes one aggregate over rows; column 0 is the event time.
func naive(f *plan.Agg, rows [][]types.Value) types.Value {
	var vs []types.Value
	var times []int64
	for _, row := range rows {
		if c, ok := f.Filter.(*plan.Col); ok && (row[c.Index].IsNull || row[c.Index].I == 0) {
			continue
		}
		v := types.Int(1)
		if !f.Star {
			v = row[f.Args[0].(*plan.Col).Index]
		}
		if !v.IsNull {
			vs, times = append(vs, v), append(times, row[0].I)
		}
	}
	if f.Fn == "count" {
		if f.Distinct {
			return types.Int(int64(len(counts(vs))))
		}
		return types.Int(int64(len(vs)))
	}
	if len(vs) == 0 || (f.Fn == "stddev" || f.Fn == "variance") && len(vs) < 2 {
		return types.NullOf(f.T)
	}
	ordered := slices.Clone(vs)
	slices.SortStableFunc(ordered, compareValues)
	switch f.Fn {
	case "min":
		return ordered[0]
	case "max":
		return ordered[len(ordered)-1]
	case "first", "last":
		best := 0
		for i := range vs {
			c := cmp.Or(cmp.Compare(times[i], times[best]), compareValues(vs[i], vs[best]))
			if f.Fn == "first" && c < 0 || f.Fn == "last" && c > 0 {
				best = i
			}
		}
		return vs[best]
	case "quantile", "median":
		q := 0.5
		if len(f.Params) > 0 {
			q = f.Params[0].F
		}
		k := 1
		for float64(k)/float64(len(vs)) < q {
			k++
		}
		return typed(f.T, asFloat(ordered[k-1]))
	case "histogram":
		return naiveHistogram(f, ordered)
	case "topk":
		return naiveTop(vs, int(f.Params[0].I))
	}
	mean, sum := new(big.Rat), new(big.Rat)
	for _, v := range vs {
		sum.Add(sum, exactly(v))
	}
	mean.Quo(sum, big.NewRat(int64(len(vs)), 1))
	switch f.Fn {
	case "sum":
		return typedRat(f.T, sum)
	case "avg":
		return typedRat(f.T, mean)
	}
	squares := new(big.Rat)
	for _, v := range vs {
		d := new(big.Rat).Sub(exactly(v), mean)
		squares.Add(squares, d.Mul(d, d))
	}
	variance, _ := squares.Quo(squares, big.NewRat(int64(len(vs)-1), 1)).Float64()
	if f.Fn == "stddev" {
		variance = math.Sqrt(variance)
	}
	return typed(f.T, variance)
}

func naiveHistogram(f *plan.Agg, ordered []types.Value) types.Value {
	t := ordered[0].Type
	bucket := func(x float64) (low, high types.Value) {
		if len(f.Params) > 0 { // -5, 20, 2.5
			for b := -5.0; b < 20; b += 2.5 {
				if b <= x && x < b+2.5 {
					return typed(t, math.Ceil(b)), typed(t, math.Ceil(b+2.5))
				}
			}
			if x < 0 {
				return types.NullOf(t), typed(t, -5)
			}
			return typed(t, 20), types.NullOf(t)
		}
		smallest := 1.0
		if t == types.Double {
			smallest = 1.0 / 1024
		}
		switch {
		case x == 0 && t == types.Double:
			return typed(t, 0), typed(t, 0)
		case x >= 0 && x < smallest:
			return typed(t, 0), typed(t, smallest)
		case x < 0 && x >= -smallest:
			return typed(t, -smallest), typed(t, 0)
		}
		for b := smallest; ; b *= 2 {
			if b <= x && x < 2*b {
				return typed(t, b), typed(t, 2*b)
			}
			if -2*b <= x && x < -b {
				return typed(t, -2*b), typed(t, -b)
			}
		}
	}
	var list []types.Value
	last := ""
	for _, v := range ordered {
		low, high := bucket(asFloat(v))
		if name := fmt.Sprint(low, high); name != last {
			list = append(list, types.ListOf([]types.Value{low, high, types.Int(0)}))
			last = name
		}
		list[len(list)-1].A.([]types.Value)[2].I++
	}
	return types.ListOf(list)
}

func naiveTop(vs []types.Value, n int) types.Value {
	byValue := counts(vs)
	var list []types.Value
	for v, c := range byValue {
		list = append(list, types.ListOf([]types.Value{v, types.Int(c)}))
	}
	slices.SortFunc(list, func(x, y types.Value) int {
		a, b := x.A.([]types.Value), y.A.([]types.Value)
		return cmp.Or(cmp.Compare(b[1].I, a[1].I), compareValues(a[0], b[0]))
	})
	return types.ListOf(list[:min(n, len(list))])
}

func counts(vs []types.Value) map[types.Value]int64 {
	m := map[types.Value]int64{}
	for _, v := range vs {
		m[v]++
	}
	return maps.Clone(m)
}

func compareValues(x, y types.Value) int {
	if x.Type.Physical() == types.PhysCode {
		return strings.Compare(x.S, y.S)
	}
	return exactly(x).Cmp(exactly(y))
}

func exactly(v types.Value) *big.Rat {
	if v.Type == types.Double {
		return new(big.Rat).SetFloat64(v.F)
	}
	return new(big.Rat).SetInt64(v.I)
}

func asFloat(v types.Value) float64 {
	if v.Type == types.Double {
		return v.F
	}
	return float64(v.I)
}

func typed(t types.Type, f float64) types.Value {
	if t == types.Double {
		return types.Float(f)
	}
	return types.Value{Type: t, I: int64(math.Round(f))}
}

// typedRat rounds integers to the nearest, halves away from zero.
func typedRat(t types.Type, r *big.Rat) types.Value {
	if t == types.Double {
		f, _ := r.Float64()
		return types.Float(f)
	}
	var v types.Value
	fmt.Sscan(r.FloatString(0), &v.I)
	v.Type = t
	return v
}

func compareRows(t *rapid.T, n *plan.Aggregate, got, want [][]types.Value) {
	if len(got) != len(want) {
		t.Fatalf("%d rows and flushes, not %d\n got %v\nwant %v", len(got), len(want), got, want)
	}
	for i := range want {
		if len(got[i]) != len(want[i]) {
			t.Fatalf("row %d: got %v, want %v", i, got[i], want[i])
		}
		for c := range want[i] {
			if !nearly(got[i][c], want[i][c], 1e-9) {
				t.Errorf("row %d, %s: got %v, want %v", i, n.Out.Fields[c].Name, got[i][c], want[i][c])
			}
		}
	}
}

// nearly compares numbers with a relative tolerance and all else exactly.
func nearly(got, want types.Value, tolerance float64) bool {
	switch {
	case got.Type != want.Type || got.IsNull != want.IsNull:
		return false
	case got.IsNull:
		return true
	case got.Type.Physical() == types.PhysFloat:
		return math.Abs(got.F-want.F) <= tolerance*max(1, math.Abs(want.F))
	case tolerance > 1e-6 && got.Type.Physical() == types.PhysInt:
		return math.Abs(float64(got.I-want.I)) <= tolerance*math.Abs(float64(want.I))+0.5
	}
	return fmt.Sprint(got) == fmt.Sprint(want)
}

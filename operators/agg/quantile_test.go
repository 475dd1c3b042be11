package agg

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/operators/optest"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// discrete returns the smallest value whose cumulative share is at least q.
func discrete(vs []types.Value, q float64) types.Value {
	sorted := slices.SortedFunc(slices.Values(vs), optest.Order)
	k := 1
	for float64(k)/float64(len(sorted)) < q {
		k++
	}
	return sorted[k-1]
}

// part is an accumulator of one group.
type part struct{ fold.Accumulator }

func newPart(t fataler, f *plan.Agg) part {
	acc, err := newAccumulator(f, f.Args[0].Type(), &fold.Lanes{})
	if err != nil {
		t.Fatal(err)
	}
	acc.Grow(1)
	return part{acc}
}

type fataler interface{ Fatal(...any) }

func (p part) add(vs []types.Value) {
	for chunk := range slices.Chunk(vs, batch.MaxRows) {
		b := batch.New([]types.Type{chunk[0].Type})
		in := &fold.Input{Groups: make([]uint32, len(chunk)), Words: make([]uint64, len(chunk)), Arg: &b.Cols[0]}
		for i, v := range chunk {
			b.AppendRow(v)
			in.Rows = append(in.Rows, uint16(i))
		}
		p.Update(in)
	}
}

// merge adds the state of another part.
func (p part) merge(t fataler, f *plan.Agg, other part) {
	fields, _ := plan.StateFields(f)
	b := batch.New(types.Schema{Fields: fields}.Types())
	other.Accumulator.(fold.Stater).States([]uint32{0}, b.Cols)
	b.N = 1
	at := slices.IndexFunc(fields, func(f types.Field) bool { return f.Name == plan.StateCount })
	if b.Cols[at].Int[0] == 0 {
		return
	}
	if err := p.Accumulator.(fold.Merger).Merge(&fold.Input{Rows: []uint16{0}, Groups: []uint32{0}}, b.Cols); err != nil {
		t.Fatal(err)
	}
}

func (p part) result(t fataler, typ types.Type) types.Value {
	out := batch.New([]types.Type{typ})
	if err := p.Output([]uint32{0}, &out.Cols[0], fold.Instant{}); err != nil {
		t.Fatal(err)
	}
	return out.Cols[0].Value(0)
}

// numbers draws n values of a type, some of them equal.
func numbers(t *rapid.T, typ types.Type, n int) []types.Value {
	var v *rapid.Generator[types.Value]
	if typ == types.Double {
		v = rapid.Map(rapid.OneOf(rapid.Float64(), rapid.Float64Range(-1e3, 1e3), rapid.Map(rapid.IntRange(-3, 3), func(i int) float64 { return float64(i) }),
			rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), math.SmallestNonzeroFloat64, math.MaxFloat64})), types.Float)
	} else {
		v = rapid.Map(rapid.OneOf(rapid.Int64(), rapid.Int64Range(-3, 3), rapid.Int64Range(700_000, 4_000_000),
			rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, 1<<53 + 1})), func(i int64) types.Value { return types.Value{Type: typ, I: i} })
	}
	some := rapid.SliceOfN(v, 1, 30).Draw(t, "values")
	seed := rapid.IntRange(1, 1000).Draw(t, "step")
	all := make([]types.Value, n)
	for i := range all { // drawing thousands takes long
		if i < len(some) {
			all[i] = some[i]
			continue
		}
		x := some[i%len(some)]
		if spread := int64(i*seed) % 10_000; i%3 > 0 {
			x.I, x.F = x.I/2+spread, x.F*(1+float64(spread)/5000)
		}
		all[i] = x
	}
	return all
}

// drawQuantile draws q of the aggregate fn, and values that are folded in parts and merged in any order.
func drawQuantile(t *rapid.T, fn string, least, most int) (f *plan.Agg, vs []types.Value, got types.Value) {
	typ := rapid.SampledFrom([]types.Type{types.Bigint, types.Ubigint, types.Double, types.Duration}).Draw(t, "type")
	q := rapid.OneOf(rapid.Float64Range(0, 1), rapid.SampledFrom([]float64{0, 1, 0.5, 0.9, 0.95, 0.99, 0.07})).Draw(t, "q")
	f = &plan.Agg{Fn: fn, Args: []plan.Expr{&plan.Col{T: typ}}, Params: []types.Value{types.Float(q)}, T: plan.FindAgg("quantile").Result(typ)}
	vs = numbers(t, typ, rapid.IntRange(least, most).Draw(t, "n"))
	parts := []part{newPart(t, f), newPart(t, f), newPart(t, f)}
	for rest := vs; len(rest) > 0; {
		n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
		parts[rapid.IntRange(0, 2).Draw(t, "of part")].add(rest[:n])
		rest = rest[n:]
	}
	order := rapid.Permutation(parts).Draw(t, "order")
	if rapid.Bool().Draw(t, "nested") {
		order[1].merge(t, f, order[2])
		order[0].merge(t, f, order[1])
	} else {
		order[0].merge(t, f, order[1])
		order[0].merge(t, f, order[2])
	}
	return f, vs, order[0].result(t, f.T)
}

// asResult returns a value as a result of type t.
func asResult(v types.Value, t types.Type) types.Value {
	if v.Type != t && t == types.Double {
		return types.Float(v.Type.Float(v.I))
	}
	return v
}

// same reports whether two values are equal: NaN to NaN, and -0 to 0.
func same(a, b types.Value) bool { return a.Type == b.Type && optest.Order(a, b) == 0 }

// Quantiles of at most 1,000 values are exact, however the values were divided and
// merged.
func TestQuantileOfFewValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, vs, got := drawQuantile(t, "quantile", 1, rapid.SampledFrom([]int{5, 100, exactSamples}).Draw(t, "most"))
		want := asResult(discrete(vs, f.Params[0].F), f.T)
		if !same(got, want) {
			t.Errorf("%s of %d values is %v, not %v", f, len(vs), got, want)
		}
	})
}

// PERCENTILE_CONT of at most 1,000 values is exact, too.
func TestPercentileCont(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, vs, got := drawQuantile(t, plan.PercentileCont, 1, rapid.SampledFrom([]int{2, 5, 100, exactSamples}).Draw(t, "most"))
		if want := optest.Interpolate(vs, f.Params[0].F, f.T); !same(got, want) {
			t.Errorf("%s of %d values is %v, not %v", f, len(vs), got, want)
		}
	})
}

// Quantiles of more values are a sketch's: at most 1 % (or 0.5 ns) off, between the
// smallest and the largest value, and the same however the values were divided.
func TestQuantileOfManyValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, vs, got := drawQuantile(t, "quantile", exactSamples+1, 3000)
		want := asResult(discrete(vs, f.Params[0].F), f.T)
		switch {
		case f.T == types.Duration:
			if math.Abs(float64(got.I)-float64(want.I)) > sketchAccuracy*math.Abs(float64(want.I))*(1+1e-9)+0.5 {
				t.Errorf("%s is %v, not about %v", f, got, want)
			}
		case math.Abs(want.F) > sketchMin && math.Abs(want.F) < math.MaxFloat64/1.02:
			if !(math.Abs(got.F-want.F) <= sketchAccuracy*math.Abs(want.F)*(1+1e-9)) {
				t.Errorf("%s is %v, not about %v", f, got, want)
			}
		case math.Abs(want.F) > sketchMin && !same(got, want) && !(math.Abs(got.F) > math.MaxFloat64/1.1):
			t.Errorf("%s is %v, not %v", f, got, want)
		}
		least, most := asResult(discrete(vs, 0), f.T), asResult(discrete(vs, 1), f.T)
		if optest.Order(got, least) < 0 || optest.Order(got, most) > 0 {
			t.Errorf("%s is %v, not within %v and %v", f, got, least, most)
		}
		if q := f.Params[0].F; q == 0 && !same(got, least) || q == 1 && !same(got, most) {
			t.Errorf("%s is %v of values from %v to %v", f, got, least, most)
		}
		whole := newPart(t, f)
		whole.add(vs)
		if one := whole.result(t, f.T); !same(got, one) {
			t.Errorf("%s is %v, in one part %v", f, got, one)
		}
	})
}

// A group is exact up to 1,000 values, and a sketch from 1,001 on.
func TestQuantileBecomesSketch(t *testing.T) {
	for n, exact := range map[int]bool{999: true, 1000: true, 1001: false} {
		var vs []types.Value
		for i := range n {
			vs = append(vs, types.Dur(int64(1_000_000+i*7%n)))
		}
		got, err := foldRows(t, types.Duration, "quantile(x, 0.3)", vs...)
		if err != nil {
			t.Fatal(err)
		}
		if want := discrete(vs, 0.3); (got == want) != exact || math.Abs(float64(got.I-want.I)) > 0.01*float64(want.I) {
			t.Errorf("of %d values it is %v; exactly %v", n, got, want)
		}
	}
}

// The two groups of calls, of 0.77 and 3.78 ms: each percentile is one of them.
func TestQuantileOfTwoValues(t *testing.T) {
	vs := integersOf(types.Duration, 3_780_000, 770_000)
	for text, want := range map[string]int64{
		"quantile(x, 0.0)": 770_000, "median(x)": 770_000, "quantile(x, 0.51)": 3_780_000,
		"quantile(x, 0.95)": 3_780_000, "quantile(x, 0.99)": 3_780_000, "quantile(x, 1.0)": 3_780_000,
	} {
		if got, err := foldRows(t, types.Duration, text, vs...); err != nil || got.I != want {
			t.Errorf("%s is %v, %v", text, got, err)
		}
	}
}

func TestQuantileEdges(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	hundred := make([]int64, 100)
	for i := range hundred {
		hundred[i] = int64(100 - i)
	}
	for _, c := range []struct {
		text string
		x    []types.Value
		want types.Value
	}{
		{"median(x)", doubles(nan, nan), types.Float(nan)},
		{"median(x)", doubles(nan, 0, nan), types.Float(nan)}, // the largest number, as in ORDER BY
		{"median(x)", doubles(nan, 0, -1), types.Float(0)},
		{"quantile(x, 0.0)", doubles(-inf, 0, inf), types.Float(-inf)},
		{"quantile(x, 1.0)", doubles(-inf, 0, inf), types.Float(inf)},
		{"quantile(x, 1.0)", doubles(-inf, nan, inf), types.Float(nan)},
		{"median(x)", integersOf(types.Bigint, -100, 0, 100), types.Float(0)},
		{"median(x)", integersOf(types.Bigint, 1, 2, 3, 4), types.Float(2)},
		{"median(x)", integersOf(types.Duration, 1001), types.Dur(1001)},
		{"quantile(x, 0.0)", integersOf(types.Duration, math.MinInt64, 5), types.Dur(math.MinInt64)},
		{"quantile(x, 1.0)", integersOf(types.Duration, math.MaxInt64, 5), types.Dur(math.MaxInt64)},
		// 0.07 · 100 is more than 7 as a DOUBLE.
		{"quantile(x, 0.07)", integersOf(types.Bigint, hundred...), types.Float(7)},
		{"quantile(x, 0.071)", integersOf(types.Bigint, hundred...), types.Float(8)},
		{"median(x)", []types.Value{types.NullOf(types.Bigint), types.Int(4), types.NullOf(types.Bigint)}, types.Float(4)},
		{"median(x)", []types.Value{types.NullOf(types.Bigint)}, types.NullOf(types.Double)},
	} {
		got, err := foldRows(t, c.x[0].Type, c.text, c.x...)
		if err != nil || got.IsNull != c.want.IsNull || !got.IsNull && !same(got, c.want) {
			t.Errorf("%s of %v is %v, %v, not %v", c.text, c.x, got, err, c.want)
		}
	}
}

// Where there is no room for more values, groups that receive some become sketches,
// and those that do not stay exact. Windows that close give their room back.
func TestQuantileWithoutRoom(t *testing.T) {
	room := sampleRoom{used: maxSamples - 10}
	a := newSamples(types.Bigint)
	a.share(&room)
	a.Grow(2)
	for i := range int64(8) {
		a.add(0, 1000+i)
	}
	for i := range int64(8) {
		a.add(1, 1000+i)
	}
	if a.heads[0] == sketched || a.heads[1] != sketched {
		t.Error("a group is a sketch, or exact, that should not be")
	}
	if room.used != maxSamples-2 {
		t.Errorf("%d are kept, want those of the first group", room.used)
	}
	if w, _, known := a.at(0, 5); !known || w != 1004 {
		t.Errorf("the fifth is %d", w)
	}
	if low, _, _ := a.at(1, 1); low != 1000 {
		t.Errorf("the first is %d", low)
	}
	if high, _, _ := a.at(1, 8); high != 1007 {
		t.Errorf("the last is %d", high)
	}
	a.Reset()
	if room.used != maxSamples-10 {
		t.Errorf("%d are kept by nobody", room.used-maxSamples+10)
	}
}

// A value allocates nothing, whether its group is exact or a sketch.
func TestQuantileAllocatesNothing(t *testing.T) {
	for _, groups := range []int{1, 1000} {
		a := newSamples(types.Bigint)
		a.Grow(groups)
		in := &fold.Input{Groups: make([]uint32, batch.MaxRows), Words: make([]uint64, batch.MaxRows), Arg: &batch.Column{Type: types.Bigint, Int: make([]int64, batch.MaxRows)}}
		for i := range batch.MaxRows {
			in.Rows, in.Groups[i], in.Arg.Int[i] = append(in.Rows, uint16(i)), uint32(i%groups), int64(i)
		}
		a.words, a.next = make([]int64, 0, maxSamples), make([]uint32, 0, maxSamples)
		a.Update(in)
		for groups == 1 && a.heads[0] != sketched {
			a.Update(in)
		}
		if n := testing.AllocsPerRun(100, func() { a.Update(in) }); n > 0 {
			t.Errorf("%d groups: %v allocations a batch", groups, n)
		}
	}
}

// BenchmarkQuantile folds rows into groups of a size, and reads a quantile of each.
func BenchmarkQuantile(b *testing.B) {
	for _, c := range []struct{ groups, values int }{{1, 1 << 20}, {1000, 990}, {100_000, 10}} {
		b.Run(fmt.Sprint(c.groups, " groups of ", c.values), func(b *testing.B) {
			f := &plan.Agg{Fn: "quantile", Args: []plan.Expr{&plan.Col{T: types.Duration}}, Params: []types.Value{types.Float(0.99)}, T: types.Duration}
			acc, err := newAccumulator(f, types.Duration, &fold.Lanes{})
			if err != nil {
				b.Fatal(err)
			}
			in := &fold.Input{Groups: make([]uint32, batch.MaxRows), Words: make([]uint64, batch.MaxRows),
				Arg: &batch.Column{Type: types.Duration, Int: make([]int64, batch.MaxRows)}}
			for i := range batch.MaxRows {
				in.Rows = append(in.Rows, uint16(i))
			}
			groups := make([]uint32, c.groups)
			for g := range groups {
				groups[g] = uint32(g)
			}
			rows := 0
			b.ReportAllocs()
			for b.Loop() {
				acc.Reset()
				acc.Grow(c.groups)
				rows = 0
				for x := uint64(1); rows < c.groups*c.values; rows += batch.MaxRows {
					for i := range batch.MaxRows {
						x = x*6364136223846793005 + 1442695040888963407
						in.Groups[i], in.Arg.Int[i] = uint32((rows+i)%c.groups), int64(1_000+x>>40)
					}
					acc.Update(in)
				}
				for from := 0; from < c.groups; from += batch.MaxRows {
					out := batch.New([]types.Type{types.Duration})
					if err := acc.Output(groups[from:min(from+batch.MaxRows, c.groups)], &out.Cols[0], fold.Instant{}); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/row")
		})
	}
}

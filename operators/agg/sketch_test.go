package agg

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators"
	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/operators/internal/testplan"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// foldAll returns the result of an aggregate over values of one group.
func foldAll(t *rapid.T, f *plan.Agg, arg types.Type, values []types.Value) (types.Value, error) {
	acc, err := newAccumulator(f, arg, &fold.Lanes{})
	if err != nil {
		t.Fatal(err)
	}
	acc.Grow(1)
	for chunk := range slices.Chunk(values, batch.MaxRows) {
		b := batch.New([]types.Type{arg})
		in := &fold.Input{Groups: make([]uint32, len(chunk)), Words: make([]uint64, len(chunk)), Arg: &b.Cols[0]}
		for i, v := range chunk {
			b.AppendRow(v)
			if !v.IsNull {
				in.Rows = append(in.Rows, uint16(i))
			}
		}
		acc.Update(in)
	}
	out := batch.New([]types.Type{f.T})
	if err := acc.Output([]uint32{0}, &out.Cols[0], fold.Instant{}); err != nil {
		return types.Value{}, err
	}
	return out.Cols[0].Value(0), nil
}

// However values are divided, the quantile of the parts' sketches equals that of
// all of them, to the last bit.
func TestSketchesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		typ := rapid.SampledFrom([]types.Type{types.Double, types.Bigint, types.Ubigint}).Draw(t, "type")
		params := []types.Value{types.Float(q)}
		var all, sketches []types.Value
		for range rapid.IntRange(0, 5).Draw(t, "parts") {
			var part []types.Value
			if n := rapid.OneOf(rapid.IntRange(0, 200), rapid.IntRange(0, 1500)).Draw(t, "n"); n > 0 {
				part = numbers(t, typ, n)
			}
			s, err := foldAll(t, &plan.Agg{Fn: "sketch", T: types.Bytes}, typ, part)
			if err != nil || s.IsNull != (len(part) == 0) {
				t.Fatalf("the sketch of %d values: %v, %v", len(part), s, err)
			}
			all, sketches = append(all, part...), append(sketches, s)
		}
		want, err := foldAll(t, &plan.Agg{Fn: "quantile", T: types.Double, Params: params}, typ, all)
		if err != nil {
			t.Fatal(err)
		}
		got, err := foldAll(t, &plan.Agg{Fn: "sketch_quantile", T: types.Double, Params: params}, types.Bytes, sketches)
		if err != nil || got.IsNull != want.IsNull || !want.IsNull && !same(got, want) {
			t.Fatalf("of the sketches %v, %v; of the values %v", got, err, want)
		}
	})
}

// What is no sketch is an error, and no panic.
func TestNoSketch(t *testing.T) {
	f := &plan.Agg{Fn: "sketch_quantile", T: types.Double, Params: []types.Value{types.Float(0.5)}}
	for _, text := range []string{"x", "hello, world", "\x01\x02", "\x02", "\x01\x02\x00", "\x01\x02\x02\x00\x02", "\x01\x02\x05\x7f", "\x01\x02\x03\x01", strings.Repeat("\xff", 20)} {
		rapid.Check(t, func(t *rapid.T) {
			if v, err := foldAll(t, f, types.Bytes, []types.Value{{Type: types.Bytes, S: text}}); err == nil {
				t.Fatalf("%q is one: %v", text, v)
			}
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		_, _ = foldAll(t, f, types.Bytes, []types.Value{{Type: types.Bytes, S: text}})
	})
}

// A first stage whose input is not a valid sketch records that in its state.
func TestStateOfNoSketch(t *testing.T) {
	f := &plan.Agg{Fn: "sketch_quantile", Args: []plan.Expr{&plan.Col{T: types.Bytes}}, Params: []types.Value{types.Float(0.5)}, T: types.Double}
	p, ok := plan.NewPartial(nil, []plan.Agg{*f}, 0)
	if !ok {
		t.Fatal("no state")
	}
	in := testplan.Relation("y:bytes")
	s, err := NewFirstStage(p, in.Out)
	if err != nil {
		t.Fatal(err)
	}
	b := batch.New(in.Out.Types())
	b.AppendRow(types.Value{Type: types.Bytes, S: "\xff"})
	if err := s.Push(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	n := &plan.Aggregate{Input: in, Aggs: p.Aggs, Out: types.Schema{Fields: []types.Field{{Type: types.Double}}, Time: -1}}
	op, err := New(n, &results{}, &operators.Options{})
	if err != nil {
		t.Fatal(err)
	}
	port, err := NewPartials(op, p)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Emit(func(b *batch.Batch) error {
		_, err := port.Push(t.Context(), 0, b)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := op.Close(t.Context(), 0); err == nil {
		t.Error("there is a quantile of what is no sketch")
	}
}

// A value is counted under the same number, at most 1 % off, however many values there are.
func TestSketchBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := rapid.SampledFrom([]types.Type{types.Double, types.Bigint}).Draw(t, "type")
		values := numbers(t, typ, rapid.OneOf(rapid.IntRange(1, 200), rapid.IntRange(1, 1500)).Draw(t, "n"))
		want := map[float64]int64{}
		for _, v := range values {
			x := v.F
			if typ == types.Bigint {
				x = float64(v.I)
			}
			if v.IsNull || x != x {
				continue
			}
			one, ok := sketchOf(t, typ, []types.Value{v})
			if !ok || len(one) != 1 || one[0].Count != 1 || math.Abs(one[0].Value-x) > 0.010001*math.Abs(x) && math.Abs(x) >= sketchMin {
				t.Fatalf("%g alone: %v", x, one)
			}
			want[one[0].Value]++
		}
		got := map[float64]int64{}
		if all, ok := sketchOf(t, typ, values); ok {
			for i, b := range all {
				if b.Value != b.Value {
					continue
				}
				if got[b.Value] = b.Count; i > 0 && !(all[i-1].Value < b.Value) {
					t.Fatalf("out of order: %v", all)
				}
			}
		}
		if !maps.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
	if _, ok := SketchBuckets(nil, "\x07abc"); ok {
		t.Error("nonsense was decoded")
	}
}

func sketchOf(t *rapid.T, typ types.Type, values []types.Value) ([]SketchBucket, bool) {
	s, err := foldAll(t, &plan.Agg{Fn: "sketch", T: types.Bytes}, typ, values)
	if err != nil {
		t.Fatal(err)
	}
	return SketchBuckets(nil, s.S)
}

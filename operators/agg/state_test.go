package agg

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// stated is what X_MERGE gives of X_STATE of parts of values.
func stated(t *rapid.T, fn string, arg types.Type, params []types.Value, result types.Type, parts [][]types.Value) (types.Value, error) {
	f := &plan.Agg{Fn: fn + plan.MergeSuffix, T: result, Params: params}
	acc, err := newAccumulator(f, arg, &fold.Lanes{})
	if err != nil {
		t.Fatal(err)
	}
	acc.Grow(1)
	b := batch.New([]types.Type{arg, types.Bytes})
	in := &fold.Input{Groups: make([]uint32, len(parts)), Words: make([]uint64, len(parts)), Arg: &b.Cols[0], More: []*batch.Column{&b.Cols[1]}}
	for i, part := range parts {
		s, err := foldAll(t, &plan.Agg{Fn: fn + plan.StateSuffix, T: types.Bytes, Params: params}, arg, part)
		if err != nil || s.IsNull != (len(part) == 0) {
			t.Fatalf("the state of %d values: %v, %v", len(part), s, err)
		}
		witness := types.NullOf(arg)
		if len(part) > 0 {
			witness = part[0]
			in.Rows = append(in.Rows, uint16(i))
		}
		b.AppendRow(witness, s)
	}
	acc.Update(in)
	out := batch.New([]types.Type{result})
	if err := acc.Output([]uint32{0}, &out.Cols[0], fold.Instant{}); err != nil {
		return types.Value{}, err
	}
	return out.Cols[0].Value(0), nil
}

// However values are divided, what is merged of the parts' states is that of all of them.
func TestStatesAddUp(t *testing.T) {
	float := func(vs ...float64) (out []types.Value) {
		for _, v := range vs {
			out = append(out, types.Float(v))
		}
		return out
	}
	for _, c := range []struct {
		fn     string
		arg    types.Type
		params []types.Value
		result types.Type
	}{
		{"stddev", types.Bigint, nil, types.Double},
		{"stddev", types.Duration, nil, types.Duration},
		{"variance", types.Double, nil, types.Double},
		{"histogram", types.Bigint, nil, types.List},
		{"histogram", types.Double, nil, types.List},
		{"histogram", types.Bigint, float(-5, 60, 7), types.List},
		{"histogram", types.Double, float(0, 1, 0.1), types.List},
		{"topk", types.Bigint, []types.Value{types.Int(4)}, types.List},
		{"topk", types.Varchar, []types.Value{types.Int(4)}, types.List},
		{"topk", types.Double, []types.Value{types.Int(2)}, types.List},
		{"topk", types.Boolean, []types.Value{types.Int(2)}, types.List},
	} {
		t.Run(fmt.Sprint(c.fn, " of ", c.arg), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				var all []types.Value
				var parts [][]types.Value
				for range rapid.IntRange(0, 5).Draw(t, "parts") {
					var part []types.Value
					for range rapid.IntRange(0, 60).Draw(t, "values") {
						v := types.Value{Type: c.arg}
						switch n := rapid.OneOf(rapid.Int64Range(-20, 100), rapid.Int64()).Draw(t, "value"); c.arg {
						case types.Double:
							v.F = float64(n%1000) / 8
						case types.Varchar:
							v.S = fmt.Sprint(n % 20)
						case types.Boolean:
							v.I = n & 1
						case types.Duration:
							v.I = n / 4 // its deviation is a DURATION, too
						default:
							v.I = n
						}
						part = append(part, v)
					}
					all, parts = append(all, part...), append(parts, part)
				}
				want, err := foldAll(t, &plan.Agg{Fn: c.fn, T: c.result, Params: c.params}, c.arg, all)
				if err != nil {
					t.Fatal(err)
				}
				got, err := stated(t, c.fn, c.arg, c.params, c.result, parts)
				if err != nil || got.IsNull != want.IsNull || got.I != want.I || math.Abs(got.F-want.F) > 1e-9*math.Abs(want.F) || fmt.Sprint(got.A) != fmt.Sprint(want.A) {
					t.Fatalf("of the states %v, %v; of the values %v", got, err, want)
				}
			})
		})
	}
}

// What is no state is an error, and no panic.
func TestNoState(t *testing.T) {
	for _, f := range []plan.Agg{
		{Fn: "stddev_merge", T: types.Double}, {Fn: "histogram_merge", T: types.List},
		{Fn: "topk_merge", T: types.List, Params: []types.Value{types.Int(3)}},
	} {
		for _, arg := range []types.Type{types.Bigint, types.Double, types.Varchar} {
			if arg == types.Varchar && f.Fn != "topk_merge" {
				continue
			}
			rapid.Check(t, func(t *rapid.T) {
				state := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
				acc, err := newAccumulator(&f, arg, &fold.Lanes{})
				if err != nil {
					t.Fatal(err)
				}
				acc.Grow(1)
				b := batch.New([]types.Type{arg, types.Bytes})
				b.AppendRow(types.Value{Type: arg}, types.Value{Type: types.Bytes, S: state})
				acc.Update(&fold.Input{Rows: []uint16{0}, Groups: make([]uint32, 1), Words: make([]uint64, 1), Arg: &b.Cols[0], More: []*batch.Column{&b.Cols[1]}})
				out := batch.New([]types.Type{f.T})
				if err := acc.Output([]uint32{0}, &out.Cols[0], fold.Instant{}); err == nil && state == "" {
					t.Fatal("nothing is a state")
				}
			})
		}
	}
}

// TOPK of very many values goes on with those that are kept, of states, too.
func TestTopKOfManyStates(t *testing.T) {
	f := &plan.Agg{Fn: "topk_merge", T: types.List, Params: []types.Value{types.Int(1)}}
	acc, err := newAccumulator(f, types.Bigint, &fold.Lanes{})
	if err != nil {
		t.Fatal(err)
	}
	acc.Grow(1)
	a := acc.(*merging).loader.(*topK)
	a.exact = 100
	for part := range int64(5) {
		host, err := newTopK(f, types.Bigint)
		if err != nil {
			t.Fatal(err)
		}
		state := &topKState{topK: *host.(*topK)}
		state.Grow(1)
		for i := range int64(90) {
			state.count(0, uint64(1000*part+i), 1)
		}
		state.count(0, 7, 40) // frequent at each
		out := batch.New([]types.Type{types.Bytes})
		if err := state.Output([]uint32{0}, &out.Cols[0], fold.Instant{}); err != nil {
			t.Fatal(err)
		}
		if !a.load(0, []byte(out.Cols[0].Value(0).S)) {
			t.Fatal("it is no state")
		}
	}
	out := batch.New([]types.Type{types.List})
	if err := acc.Output([]uint32{0}, &out.Cols[0], fold.Instant{}); err != nil {
		t.Fatal(err)
	}
	top := out.Cols[0].Value(0).A.([]types.Value)[0].A.([]types.Value)
	// 5·40 and the one of the first part; too high by what was counted over the values kept, at most.
	if n := top[1].I; top[0].I != 7 || n < 201 || n > 201+5*130/100 {
		t.Errorf("%d is there %d times", top[0].I, n)
	}
}

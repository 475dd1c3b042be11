package operators

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
)

// stated is what X_MERGE gives of X_STATE of parts of values.
func stated(t *rapid.T, fn string, arg batch.Type, params []batch.Value, result batch.Type, parts [][]batch.Value) (batch.Value, error) {
	f := &plan.Agg{Fn: fn + plan.MergeSuffix, T: result, Params: params}
	acc, err := newAccumulator(f, arg, &lanes{})
	if err != nil {
		t.Fatal(err)
	}
	acc.grow(1)
	b := batch.New(batch.Schema{arg, batch.Bytes})
	in := &folding{groups: make([]uint32, len(parts)), words: make([]uint64, len(parts)), arg: &b.Cols[0], more: []*batch.Column{&b.Cols[1]}}
	for i, part := range parts {
		s, err := foldAll(t, &plan.Agg{Fn: fn + plan.StateSuffix, T: batch.Bytes, Params: params}, arg, part)
		if err != nil || s.IsNull != (len(part) == 0) {
			t.Fatalf("the state of %d values: %v, %v", len(part), s, err)
		}
		witness := batch.NullOf(arg)
		if len(part) > 0 {
			witness = part[0]
			in.rows = append(in.rows, uint16(i))
		}
		b.AppendRow(witness, s)
	}
	acc.update(in)
	out := batch.New(batch.Schema{result})
	if err := acc.output([]uint32{0}, &out.Cols[0], instant{}); err != nil {
		return batch.Value{}, err
	}
	return out.Cols[0].Value(0), nil
}

// However values are divided, what is merged of the parts' states is that of all of them.
func TestStatesAddUp(t *testing.T) {
	float := func(vs ...float64) (out []batch.Value) {
		for _, v := range vs {
			out = append(out, batch.Float(v))
		}
		return out
	}
	for _, c := range []struct {
		fn     string
		arg    batch.Type
		params []batch.Value
		result batch.Type
	}{
		{"stddev", batch.Bigint, nil, batch.Double},
		{"stddev", batch.Duration, nil, batch.Duration},
		{"variance", batch.Double, nil, batch.Double},
		{"histogram", batch.Bigint, nil, batch.List},
		{"histogram", batch.Double, nil, batch.List},
		{"histogram", batch.Bigint, float(-5, 60, 7), batch.List},
		{"histogram", batch.Double, float(0, 1, 0.1), batch.List},
		{"topk", batch.Bigint, []batch.Value{batch.Int(4)}, batch.List},
		{"topk", batch.Varchar, []batch.Value{batch.Int(4)}, batch.List},
		{"topk", batch.Double, []batch.Value{batch.Int(2)}, batch.List},
		{"topk", batch.Boolean, []batch.Value{batch.Int(2)}, batch.List},
	} {
		t.Run(fmt.Sprint(c.fn, " of ", c.arg), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				var all []batch.Value
				var parts [][]batch.Value
				for range rapid.IntRange(0, 5).Draw(t, "parts") {
					var part []batch.Value
					for range rapid.IntRange(0, 60).Draw(t, "values") {
						v := batch.Value{Type: c.arg}
						switch n := rapid.OneOf(rapid.Int64Range(-20, 100), rapid.Int64()).Draw(t, "value"); c.arg {
						case batch.Double:
							v.F = float64(n%1000) / 8
						case batch.Varchar:
							v.S = fmt.Sprint(n % 20)
						case batch.Boolean:
							v.I = n & 1
						case batch.Duration:
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
		{Fn: "stddev_merge", T: batch.Double}, {Fn: "histogram_merge", T: batch.List},
		{Fn: "topk_merge", T: batch.List, Params: []batch.Value{batch.Int(3)}},
	} {
		for _, arg := range []batch.Type{batch.Bigint, batch.Double, batch.Varchar} {
			if arg == batch.Varchar && f.Fn != "topk_merge" {
				continue
			}
			rapid.Check(t, func(t *rapid.T) {
				state := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
				acc, err := newAccumulator(&f, arg, &lanes{})
				if err != nil {
					t.Fatal(err)
				}
				acc.grow(1)
				b := batch.New(batch.Schema{arg, batch.Bytes})
				b.AppendRow(batch.Value{Type: arg}, batch.Value{Type: batch.Bytes, S: state})
				acc.update(&folding{rows: []uint16{0}, groups: make([]uint32, 1), words: make([]uint64, 1), arg: &b.Cols[0], more: []*batch.Column{&b.Cols[1]}})
				out := batch.New(batch.Schema{f.T})
				if err := acc.output([]uint32{0}, &out.Cols[0], instant{}); err == nil && state == "" {
					t.Fatal("nothing is a state")
				}
			})
		}
	}
}

// TOPK of very many values goes on with those that are kept, of states, too.
func TestTopKOfManyStates(t *testing.T) {
	f := &plan.Agg{Fn: "topk_merge", T: batch.List, Params: []batch.Value{batch.Int(1)}}
	acc, err := newAccumulator(f, batch.Bigint, &lanes{})
	if err != nil {
		t.Fatal(err)
	}
	acc.grow(1)
	a := acc.(*merging).loader.(*topK)
	a.exact = 100
	for part := range int64(5) {
		host, err := newTopK(f, batch.Bigint)
		if err != nil {
			t.Fatal(err)
		}
		state := &topKState{topK: *host.(*topK)}
		state.grow(1)
		for i := range int64(90) {
			state.count(0, uint64(1000*part+i), 1)
		}
		state.count(0, 7, 40) // frequent at each
		out := batch.New(batch.Schema{batch.Bytes})
		if err := state.output([]uint32{0}, &out.Cols[0], instant{}); err != nil {
			t.Fatal(err)
		}
		if !a.load(0, []byte(out.Cols[0].Value(0).S)) {
			t.Fatal("it is no state")
		}
	}
	out := batch.New(batch.Schema{batch.List})
	if err := acc.output([]uint32{0}, &out.Cols[0], instant{}); err != nil {
		t.Fatal(err)
	}
	top := out.Cols[0].Value(0).A.([]batch.Value)[0].A.([]batch.Value)
	// 5·40 and the one of the first part; too high by what was counted over the values kept, at most.
	if n := top[1].I; top[0].I != 7 || n < 201 || n > 201+5*130/100 {
		t.Errorf("%d is there %d times", top[0].I, n)
	}
}

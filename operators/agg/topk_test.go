package agg

import (
	"fmt"
	"testing"

	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

func top(v types.Value) (out []string) {
	for _, p := range v.A.([]types.Value) {
		f := p.A.([]types.Value)
		out = append(out, fmt.Sprint(f[0].S, f[0].I, " ", f[1].I))
	}
	return out
}

func TestTopK(t *testing.T) {
	var vs []types.Value
	for _, s := range []string{"b", "a", "c", "a", "d", "c", "c"} {
		vs = append(vs, types.Str(s))
	}
	got, err := foldRows(t, types.Varchar, "topk(x, 3)", vs...)
	if want := "[c0 3 a0 2 b0 1]"; err != nil || fmt.Sprint(top(got)) != want {
		t.Errorf("%v, %v, not %s", top(got), err, want)
	}
}

// Beyond 10,000 values space-saving finds the frequent ones. No count is too low,
// and none is more than rows / 10,000 too high.
func TestTopKSpaceSaving(t *testing.T) {
	const rare, frequent, rows = 100_000, 10, 500_000
	var vs []types.Value
	for i := range rows {
		name := fmt.Sprint("rare ", i*7919%rare)
		if i%5 == 0 { // each of ten is 2 % of the rows
			name = fmt.Sprint("frequent ", i/5%frequent)
		}
		vs = append(vs, types.Str(name))
	}
	got, err := foldRows(t, types.Varchar, "topk(x, 10)", vs...)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, p := range got.A.([]types.Value) {
		f := p.A.([]types.Value)
		seen[f[0].S] = true
		if n := f[1].I; n < rows/50 || n > rows/50+rows/exactValues {
			t.Errorf("%s counted %d times, not %d", f[0].S, n, rows/50)
		}
	}
	for i := range frequent {
		if name := fmt.Sprint("frequent ", i); !seen[name] {
			t.Errorf("%s is missing in %v", name, top(got))
		}
	}
}

// Beyond 10,000 values, merged states count no value too low by more than rows /
// 10,000, and none too high by more than twice that.
func TestTopKMergesBeyondExact(t *testing.T) {
	const rare, frequent, rows, places = 30_000, 10, 200_000, 4
	f := &plan.Agg{Fn: "topk", Args: []plan.Expr{&plan.Col{T: types.Varchar}}, Params: []types.Value{types.Int(frequent)}}
	merged, err := newTopK(f, types.Varchar)
	if err != nil {
		t.Fatal(err)
	}
	merged.Grow(1)
	in := &fold.Input{Groups: make([]uint32, batch.MaxRows), Words: make([]uint64, batch.MaxRows)}
	for p := range places {
		one, _ := newTopK(f, types.Varchar)
		one.Grow(1)
		for from := p; from < rows; from += places * batch.MaxRows {
			b := batch.New([]types.Type{types.Varchar})
			for i := from; i < rows && b.N < batch.MaxRows; i += places {
				name := fmt.Sprint("rare ", i*7919%rare)
				if i/places%5 == 0 { // each of ten is 2 % of the rows
					name = fmt.Sprint("frequent ", i/places/5%frequent)
				}
				b.AppendRow(types.Str(name))
			}
			in.Rows, in.Arg = batch.RowsOf(b), &b.Cols[0]
			one.Update(in)
		}
		state := batch.New([]types.Type{types.Bytes, types.Bigint})
		one.(fold.Stater).States([]uint32{0}, state.Cols)
		in.Rows = []uint16{0}
		if err := merged.(fold.Merger).Merge(in, state.Cols); err != nil {
			t.Fatal(err)
		}
	}
	out := batch.New([]types.Type{types.List})
	if err := merged.Output([]uint32{0}, &out.Cols[0], fold.Instant{}); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, p := range out.Cols[0].Any[0].([]types.Value) {
		f := p.A.([]types.Value)
		seen[f[0].S] = true
		if n := f[1].I; n < rows/50-rows/exactValues || n > rows/50+2*rows/exactValues {
			t.Errorf("%s counted %d times, not %d", f[0].S, n, rows/50)
		}
	}
	for i := range frequent {
		if name := fmt.Sprint("frequent ", i); !seen[name] {
			t.Errorf("%s is missing", name)
		}
	}
}

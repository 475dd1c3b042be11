package agg

import (
	"fmt"
	"testing"

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

// Beyond 10,000 values space-saving finds those that are frequent, and counts
// none too low, none more than rows / 10,000 too high.
func TestTopKSpaceSaving(t *testing.T) {
	const rare, frequent, rows = 100_000, 10, 500_000
	var vs []types.Value
	for i := range rows {
		name := fmt.Sprint("rare ", i*7919%rare)
		if i%5 == 0 { // each of ten comes with 2 % of the rows
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

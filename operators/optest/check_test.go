package optest

import (
	"errors"
	"slices"
	"testing"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// mutant is the oracle with a defect.
type mutant func(*Output) error

func (m mutant) Run(root plan.Node, in *Input) (*Output, error) {
	out, err := Oracle{}.Run(root, in)
	if err == nil {
		err = m(out)
	}
	return out, err
}

// TestCheckFindsDefects holds Check to finding what an engine may do wrong.
func TestCheckFindsDefects(t *testing.T) {
	in, err := ParseInput(`
		stream calls.csv timestamp name:varchar ms:bigint
		1s read 3
		2s write 4
		watermark 2s
		500ms read 5
		3s null null`)
	if err != nil {
		t.Fatal(err)
	}
	rel := in.Relations["calls.csv"]
	leaf := &plan.Acquire{Stream: "file", Args: []plan.Const{{V: types.Str("calls.csv")}}, Out: rel}
	sorted := &plan.Sort{Input: leaf, Keys: []plan.SortKey{{X: column(rel, 2)}}}
	win := &plan.Window{Input: leaf, Spec: plan.WindowSpec{Size: 1e9}, Out: types.Schema{Fields: append(slices.Clone(rel.Fields),
		types.Field{Name: "window_start", Type: types.Timestamp}, types.Field{Name: "window_end", Type: types.Timestamp})}}
	groups := &plan.Aggregate{Input: win, Windowed: true, WindowEnd: 1, Keys: []plan.Expr{column(win.Out, 3), column(win.Out, 4)},
		Aggs: []plan.Agg{{Fn: "avg", Args: []plan.Expr{column(rel, 2)}, T: types.Double}}, Out: types.Schema{Time: 1,
			Fields: []types.Field{{Name: "window_start", Type: types.Timestamp}, {Name: "window_end", Type: types.Timestamp}, {Name: "avg", Type: types.Double}}}}

	cases := []struct {
		name  string
		root  plan.Node
		found bool
		do    mutant
	}{
		{"nothing", sorted, false, func(*Output) error { return nil }},
		{"a row less", sorted, true, func(o *Output) error { o.Results[0].Rows = o.Results[0].Rows[1:]; return nil }},
		{"another order", sorted, true, func(o *Output) error { slices.Reverse(o.Results[0].Rows); return nil }},
		{"NULL becomes a value", sorted, true, func(o *Output) error { o.Results[0].Rows[3][2].IsNull = false; return nil }},
		{"an error", sorted, true, func(*Output) error { return errors.New("broken") }},
		{"a preview", sorted, false, func(o *Output) error {
			o.Results = append([]Result{{Rows: o.Results[0].Rows, Flushed: true, Preview: true}}, o.Results...)
			return nil
		}},
		{"an empty result", groups, false, func(o *Output) error { o.Results = append(o.Results, Result{Flushed: true}); return nil }},
		{"a rounding error", groups, false, func(o *Output) error { o.Results[0].Rows[0][2].F *= 1 + 1e-12; return nil }},
		{"a wrong mean", groups, true, func(o *Output) error { o.Results[0].Rows[0][2].F *= 1.001; return nil }},
		{"one result for two windows", groups, true, func(o *Output) error {
			o.Results[0].Rows = append(o.Results[0].Rows, o.Results[1].Rows...)
			o.Results = slices.Delete(o.Results, 1, 2)
			return nil
		}},
		{"late rows not counted", groups, true, func(o *Output) error { o.Lost = nil; return nil }},
	}
	for _, c := range cases {
		if diff := Check(c.do, c.root, in); (diff != "") != c.found {
			t.Errorf("%s: %q", c.name, diff)
		}
	}
}

// TestInputRoundTrip holds FormatInput to what ParseInput reads.
func TestInputRoundTrip(t *testing.T) {
	in, err := ParseInput(`
		stream a.csv timestamp s:varchar f:double d:duration
		1s 'a b' nan 10ms
		1500ms '' -0.5 null
		--
		-2s null inf 1d
		watermark 2s
		stream b.csv line:bigint
		7
		lost 3 ring full
		preview 3s
		end`)
	if err != nil {
		t.Fatal(err)
	}
	text := FormatInput(in)
	again, err := ParseInput(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if FormatInput(again) != text || len(again.Steps) != len(in.Steps) {
		t.Errorf("got\n%s\nwant\n%s", FormatInput(again), text)
	}
	if _, err := ParseInput("stream a.csv n:bigint\nx"); err == nil {
		t.Error("a text as BIGINT was read")
	}
}

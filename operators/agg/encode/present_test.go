package encode

import (
	"strings"
	"testing"

	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/operators/encoders"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// TestPresents folds events into what there is, by group, and draws it.
func TestPresents(t *testing.T) {
	acc, err := NewPresents(&plan.Agg{Fn: "wait_graph", Args: make([]plan.Expr, 4)})
	if err != nil {
		t.Fatal(err)
	}
	acc.Grow(2)
	b := batch.New([]types.Type{types.Varchar, types.Varchar, types.Varchar, types.Varchar})
	rows := [][4]string{{"ACQUIRE", "a", "1", "left"}, {"ACQUIRE", "b", "2", "right"}, {"BEGIN_WAIT", "b", "1", "left"}, {"BEGIN_WAIT", "a", "2", "right"}, {"ACQUIRE", "a", "1", "other"}}
	groups := []uint32{0, 0, 0, 0, 1}
	var all []uint16
	for i, row := range rows {
		b.AppendRow(types.Str(row[0]), types.Str(row[1]), types.Str(row[2]), types.Str(row[3]))
		all = append(all, uint16(i))
	}
	for i := range b.Cols {
		b.Cols[i].Values = b.Cols[i].Dict.Values()
	}
	acc.Update(&fold.Input{Rows: all, Groups: groups, Arg: &b.Cols[0], More: []*batch.Column{&b.Cols[1], &b.Cols[2], &b.Cols[3]}})
	out := batch.New([]types.Type{types.Encoding})
	if err := acc.Output([]uint32{0, 1}, &out.Cols[0], fold.Instant{}); err != nil {
		t.Fatal(err)
	}
	got := out.Cols[0].Any[0].(encoders.Graph)
	if want := "left 1 waits for b, which right 2 has\nright 2 waits for a, which left 1 has\ndeadlock: left 1, right 2"; got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if dot := got.Dot(); !strings.Contains(dot, `n0 -> n1 [label="b" color=red `) {
		t.Errorf("%s", dot)
	}
	if m := got.Mermaid(); !strings.Contains(m, `n0 ==>|"b"| n1`) {
		t.Errorf("%s", m)
	}
	if svg := got.(encoders.Drawing).SVG(); !strings.Contains(svg, "wait graph") || strings.Count(svg, "ep-alarm\"") != 2 {
		t.Errorf("%s", svg)
	}
	if other := out.Cols[0].Any[1].(encoders.Encoding); other.String() != "" {
		t.Errorf("nobody waits in the other group: %s", other)
	}
	if _, err := NewPresents(&plan.Agg{Fn: "wait_graph", Args: make([]plan.Expr, 2)}); err == nil {
		t.Error("who waits is not said, and it is not refused")
	}
}

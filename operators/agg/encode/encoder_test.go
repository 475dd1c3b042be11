package encode

import (
	"slices"
	"testing"
	"time"

	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/operators/encoders"
	"endoscope/operators/internal/testplan"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Previews that take long to encode are not computed each time.
func TestEncoderPreview(t *testing.T) {
	root := testplan.Encode(testplan.Relation("s:varchar"), "", "rle", "s")
	acc, err := New(&root.Aggs[0], 0, false)
	if err != nil {
		t.Fatal(err)
	}
	e := acc.(*Encoding)
	e.Grow(1)
	push := func(token string) {
		c := batch.Column{Type: types.Varchar, Dict: batch.NewDict()}
		c.Append(0, types.Str(token))
		e.Update(&fold.Input{Rows: []uint16{0}, Groups: make([]uint32, 1), Alone: true, Arg: &c})
	}
	shows := func(preview bool, want string) {
		t.Helper()
		out := batch.Column{Type: types.Encoding}
		if err := e.Output([]uint32{0}, &out, fold.Instant{Preview: preview}); err != nil {
			t.Fatal(err)
		}
		if got := out.Any[0].(encoders.Encoding).String(); got != want {
			t.Errorf("preview %t: %s, want %s", preview, got, want)
		}
	}
	push("A")
	shows(true, "A")
	e.nextPreview = time.Now().Add(time.Hour)
	push("B")
	shows(true, "A")
	shows(false, "A B")
	shows(true, "A B")
	push("C")
	e.nextPreview = time.Time{}
	shows(true, "A B C")
}

// Every encoder is declared in the planner.
func TestEncodersDeclared(t *testing.T) {
	for name := range encoderMakers {
		if !slices.ContainsFunc(plan.Encoders, func(f plan.AggFunc) bool { return f.Name == name }) {
			t.Errorf("%s is not in plan.Encoders", name)
		}
	}
}

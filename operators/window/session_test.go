package window

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"endoscope/operators"
	"endoscope/operators/internal/testplan"
	"endoscope/planner/types"
)

// Partitions that come and go are forgotten, those with an open session are
// not.
func TestSessionForgetsPartitions(t *testing.T) {
	n := testplan.SessionOf(testplan.Relation("t:bigint p:varchar"), 10, false, "p")
	ctx, rec := context.Background(), &testplan.Recorder{}
	op, err := New(n, rec, operators.DefaultMemoryLimit)
	if err != nil {
		t.Fatal(err)
	}
	b := testplan.NewPool(n.Input).Get()
	push := func() {
		if _, err := op.Push(ctx, 0, b); err != nil {
			t.Fatal(err)
		}
		b = testplan.NewPool(n.Input).Get()
	}
	var want strings.Builder
	b.AppendRow(types.Int(0), types.Str("stays"))
	for i := 1; i <= 5000; i++ {
		b.AppendRow(types.Int(int64(i)), types.Str(fmt.Sprintf("p%d", i)))
		fmt.Fprintf(&want, "%d p%d %d %d\n", i, i, i, i+10)
		if i%5 == 0 {
			b.AppendRow(types.Int(int64(i)), types.Str("stays"))
		}
		if i%500 == 0 {
			push()
			if _, err := op.Signal(ctx, 0, operators.Signal{Kind: operators.Watermark, Time: int64(i)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.AppendRow(types.Int(5005), types.Str("stays"))
	push()
	if err := op.Close(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if got := op.(*sessions).parts.Len(); got > 1024 {
		t.Errorf("%d partitions are remembered", got)
	}
	stays, others := 0, ""
	for line := range strings.Lines(rec.Text.String()) {
		switch {
		case strings.Contains(line, "stays"):
			stays++
			if !strings.HasSuffix(line, "stays 0 5015\n") {
				t.Fatalf("the open session was cut: %s", line)
			}
		case strings.Contains(line, "p"):
			others += line
		}
	}
	if stays != 1002 || others != want.String() {
		t.Errorf("%d rows of the open session; others:\n%s", stays, others)
	}
}

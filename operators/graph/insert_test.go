package graph

import (
	"testing"
	"time"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/internal/testplan"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

func TestFileTexts(t *testing.T) {
	for _, c := range []struct{ in, csv, json string }{
		{"", `""`, `""`},
		{"plain é", `plain é`, `"plain é"`},
		{"a\nb\r\t", "\"a\nb\r\t\"", `"a\nb\r\t"`},
		{` x`, `" x"`, `" x"`},
		{`\"`, `"\"""`, `"\\\""`},
		{"\x01\u2028", "\x01\u2028", `"\u0001\u2028"`},
		{"\xff", "\xff", "\"\ufffd\""},
	} {
		if got := string(appendCSVText(nil, c.in)); got != c.csv {
			t.Errorf("CSV %q: %s", c.in, got)
		}
		if got := string(appendJSONText(nil, c.in)); got != c.json {
			t.Errorf("JSON %q: %s", c.in, got)
		}
	}
}

// Somebody who follows the file sees rows at most a second late, as long as
// signals come, which they do when idle too.
func TestInsertFlushesEachSecond(t *testing.T) {
	var file testplan.MemoryFile
	in := testplan.Relation("x:bigint")
	f, err := newInsert(&plan.Insert{Input: in, Path: "x.jsonl"}, &testplan.Recorder{}, file.Open)
	if err != nil {
		t.Fatal(err)
	}
	clock := time.Unix(1000, 0)
	f.now = func() time.Time { return clock }
	b := batch.New(in.Out.Types())
	b.AppendRow(types.Int(1))
	for _, step := range []struct {
		after time.Duration
		want  string
	}{
		{999 * time.Millisecond, ""},
		{time.Millisecond, "{\"x\":1}\n{\"x\":1}\n"},
		{999 * time.Millisecond, "{\"x\":1}\n{\"x\":1}\n"},
	} {
		if _, err := f.Push(t.Context(), 0, b); err != nil {
			t.Fatal(err)
		}
		clock = clock.Add(step.after)
		if _, err := f.Signal(t.Context(), 0, operators.Signal{Kind: operators.Watermark}); err != nil {
			t.Fatal(err)
		}
		if got := file.String(); got != step.want {
			t.Errorf("after %v the file is %q", step.after, got)
		}
	}
}

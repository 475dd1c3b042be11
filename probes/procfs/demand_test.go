package procfs

import (
	"testing"
	"time"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
)

// TestDemand requests a value twice: each request yields one row, with the time
// of the request and a meaningful rate, and there is none in between.
func TestDemand(t *testing.T) {
	var out types.Schema
	for i, f := range tables["cpu_usage"].Fields() {
		if f.Name == "timestamp" {
			out.Time = i
		}
		out.Fields = append(out.Fields, f)
	}
	src, err := New().Prepare(t.Context(), &plan.Acquire{Stream: "cpu_usage", OnDemand: true, Out: out,
		Settings: plan.Settings{RateWindow: 40 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	sink := newRecorder(t, out)
	if err := src.Start(t.Context(), sink, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	var asked, answered []int64
	for range 2 {
		time.Sleep(100 * time.Millisecond) // longer than a rate window: readings are taken meanwhile
		asked = append(asked, time.Now().UnixNano())
		if _, err := src.Control(t.Context(), probes.Sample{}); err != nil {
			t.Fatal(err)
		}
		answered = append(answered, time.Now().UnixNano())
	}
	if err := src.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := src.Stop(); err != nil {
		t.Error("the second Stop:", err)
	}
	if _, err := src.Control(t.Context(), probes.Sample{}); err != nil {
		t.Error("asked after the end:", err)
	}
	if len(sink.rows) != len(asked) {
		t.Fatalf("%d rows for %d questions", len(sink.rows), len(asked))
	}
	for i, row := range sink.rows {
		if at := row[out.Time].I; at < asked[i]-int64(time.Millisecond) || at > answered[i]+int64(time.Millisecond) {
			t.Errorf("value %d is of %v after the question", i, time.Duration(at-asked[i]))
		}
		busy, idle := row[out.Index("percent_busy")].F, row[out.Index("percent_idle")].F
		if busy < 0 || busy > 100 || busy+idle <= 0 {
			t.Errorf("value %d: busy %v, idle %v", i, busy, idle)
		}
	}
}

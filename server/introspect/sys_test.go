package introspect

import (
	"testing"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/clock"
	"endoscope/server/query"
)

// watermarks is a sink that stores watermarks.
type watermarks struct {
	probes.Sink
	heard chan int64
}

func (w watermarks) Push(b *batch.Batch) { b.Release() }

func (w watermarks) Watermark(t int64) { w.heard <- t }

func (w watermarks) End(error) {}

// A sys stream sends watermarks however seldom it has rows.
func TestSysStreamsAreAlive(t *testing.T) {
	cs := catalog.Find("sys.drops")
	spec := &plan.Acquire{Stream: "sys.drops", Every: time.Hour}
	for _, c := range cs.Columns {
		spec.Out.Fields = append(spec.Out.Fields, types.Field{Name: c.Name, Type: c.Type})
	}
	s, err := (&Provider{&System{Running: func() []*query.Query { return nil }}}).Prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	began, heard := clock.Now(), make(chan int64, 1000)
	if err := s.Start(t.Context(), watermarks{heard: heard}, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	select {
	case at := <-heard:
		if at < began {
			t.Errorf("it is %d, %d before it began", at, began-at)
		}
	case <-time.After(3 * time.Minute):
		t.Error("nothing is heard in three minutes")
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}

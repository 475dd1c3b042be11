package decode

import (
	"testing"
	"unsafe"

	"endoscope/operators/batch"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/bpf"
	"endoscope/probes/codegen"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/internal/testplan"
)

// subscribed returns a subscription with the usual columns, and a record for it.
func subscribed(tb testing.TB, sink *testplan.Discard) (*Subscription, []byte) {
	spec := testplan.Acquire(catalog.FunctionDuration, plan.Target{}, nil,
		"timestamp", "pid", "tid", "function_name", "module", "duration", "arg0", "process")
	cols, err := calls.ColumnsOf(spec, calls.ValuesOf(spec))
	if err != nil {
		tb.Fatal(err)
	}
	w := calls.NewRequest(spec, cols, &calls.Values{Columns: calls.ValuesOf(spec)}, codegen.Program{})
	s := NewSubscription(spec.Out.Types(), w, sink, 0, newExeNames(), nil)
	s.Name(3, calls.Label{Function: "f", Module: "m"})
	e := &bpf.FunctionEventFull{}
	e.R.E = bpf.FunctionEvent{Time: 2000, Function: 3, Pid: 10, Tid: 11}
	e.R.Start = 1000
	copy(e.Process[:], []int8{'p', 'r', 'o', 'c'})
	return s, unsafe.Slice((*byte)(unsafe.Pointer(e)), unsafe.Sizeof(*e))
}

func TestRowsAllocateNothing(t *testing.T) {
	s, raw := subscribed(t, &testplan.Discard{})
	var e event
	fill := func() {
		for range batch.MaxRows {
			if !Decode(raw, s.options, &e) {
				t.Fatal("record not understood")
			}
			s.add(&e)
		}
	}
	fill() // the columns grow
	// The garbage collector occasionally empties the pool of batches, and the race
	// detector makes it drop items at random.
	if n := testing.AllocsPerRun(200, fill); n >= 1 && !raceEnabled {
		t.Errorf("%v allocations for %d rows", n, batch.MaxRows)
	}
}

// BenchmarkDecode measures the reader's work from record to row.
func BenchmarkDecode(b *testing.B) {
	s, raw := subscribed(b, &testplan.Discard{})
	var e event
	b.ReportAllocs()
	for b.Loop() {
		Decode(raw, s.options, &e)
		s.add(&e)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

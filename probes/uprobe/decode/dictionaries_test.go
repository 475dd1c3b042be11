package decode

import (
	"fmt"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/bpf"
	"endoscope/probes/codegen"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/internal/testplan"
)

// reread is a sink that checks all rows after they have been delivered.
type reread struct {
	testplan.Discard
	given []*batch.Batch
}

func (r *reread) Push(b *batch.Batch) { r.given = append(r.given, b) }

// An unbounded set of strings, such as names of processes and texts of calls, moves to
// new dictionaries; codes that are assigned once per function keep their meaning.
func TestDictionariesAreBounded(t *testing.T) {
	spec := testplan.Acquire(catalog.FunctionCall, plan.Target{}, nil, "timestamp", "event", "function_name", "module", "process", "exe")
	cols, err := calls.ColumnsOf(spec, calls.ValuesOf(spec))
	if err != nil {
		t.Fatal(err)
	}
	executable := func(pid int) string { return fmt.Sprintf("/bin/%d", pid) }
	sink := &reread{}
	w := calls.NewRequest(spec, cols, &calls.Values{Columns: calls.ValuesOf(spec)}, codegen.Program{})
	s := NewSubscription(spec.Out.Types(), w, sink, 0, newNames(executable), nil)
	s.Name(0, calls.Label{Function: "in_program", Module: "program", Exe: "/bin/program"})
	s.Name(1, calls.Label{Function: "in_library", Module: "library"})
	const rows = 3*batch.DictLimit + 100
	for i := range rows {
		s.add(&event{FunctionEvent: &bpf.FunctionEvent{Pid: uint32(i)}, function: uint32(i % 2), kind: EventEnter[0], process: fmt.Appendf(nil, "worker %d", i)})
	}
	s.Flush()
	i, dictionaries := 0, map[*batch.Dict]bool{}
	for _, b := range sink.given {
		for _, c := range b.Cols[1:] {
			dictionaries[c.Dict] = true
			if n := c.Dict.Len(); n > batch.DictLimit+batch.MaxRows {
				t.Fatalf("a dictionary has %d strings", n)
			}
		}
		for row := range b.N {
			want := []string{EventEnter, "in_program", "program", fmt.Sprintf("worker %d", i), "/bin/program"}
			if i%2 == 1 {
				want = []string{EventEnter, "in_library", "library", fmt.Sprintf("worker %d", i), executable(i)}
			}
			for k, text := range want {
				if c := b.Cols[1+k]; c.Values[c.Code[row]] != text {
					t.Fatalf("row %d: %s is %q, want %q", i, spec.Out.Fields[1+k].Name, c.Values[c.Code[row]], text)
				}
			}
			i++
		}
	}
	if i != rows {
		t.Errorf("%d rows, want %d", i, rows)
	}
	// Three constant dictionaries, three or four of names, and two of executables,
	// which occur in every other row.
	if n := len(dictionaries); n < 3+3+2 {
		t.Errorf("%d dictionaries", n)
	}
}

package server

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"endoscope/parser"
	"endoscope/planner"
	"endoscope/probes"
	"endoscope/probes/sourcetest"
	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

const waitingProgram = `
#include <unistd.h>
volatile int total;
__attribute__((noinline)) void work(void) { total++; }
int main(void) {
	char c;
	while (read(0, &c, 1) == 1)
		work();
}
`

// TestSourcesKeepTheContract takes a source of every provider through its states.
func TestSourcesKeepTheContract(t *testing.T) {
	testenv.NeedUprobes(t)
	cmd := exec.Command(testenv.CompileCText(t, waitingProgram, "-g"))
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	s := openedSession(t, wire.Options{PID: cmd.Process.Pid})
	of := fmt.Sprintf("pid = %d", cmd.Process.Pid)
	calls := of + " AND function_name = 'work'"
	for _, c := range []struct {
		statement string
		supports  []probes.Command // some that a source of it must support
		only      bool             // and no others
	}{
		{"SELECT * FROM function_start WHERE " + calls, []probes.Command{probes.Divide{}, probes.Begin{}, probes.Attach{}}, false},
		{"SELECT function_name, COUNT(*) FROM function_duration WHERE " + calls + " GROUP BY function_name", []probes.Command{probes.Divide{}, probes.Collect{}}, false},
		{"SELECT * FROM function_call WHERE " + calls, []probes.Command{probes.Begin{}}, false},
		// The library may come: what is true of the parts to come is not known.
		{"SELECT arg0 FROM function_start WHERE " + of + " AND module = 'libmissing.so' AND function_name = 'work'", nil, true},
		{"SELECT function_name, COUNT(*) FROM function_start WHERE " + of + " AND module = 'libmissing.so' AND function_name = 'work' GROUP BY function_name", []probes.Command{probes.Collect{}}, true},
		{"SELECT * FROM SAMPLE(thread_usage, 10ms) WHERE " + of, []probes.Command{probes.Divide{}}, false},
		{"SELECT * FROM SAMPLE(stack_sample, 10ms) WHERE " + of, []probes.Command{probes.Divide{}}, false},
		{"SELECT * FROM SAMPLE(event_handlers, 1s)", nil, false},
		{"SELECT * FROM handler_cost WHERE " + of, nil, false},
		{"SELECT * FROM thread_start WHERE " + of, nil, false},
		{"SELECT * FROM entity_events WHERE " + of, []probes.Command{probes.Suspend{}, probes.Resend{}}, false},
		{"SELECT * FROM variable_value WHERE var_name = 'total' AND " + of, nil, false},
		{"SELECT * FROM SAMPLE(variable_value, 10ms) WHERE var_name = 'total' AND " + of, nil, false},
		{"SELECT * FROM series(5)", nil, false},
		{"SELECT * FROM SAMPLE(sys.queries, 1s)", nil, false},
		{"SELECT f.arg0, c.percent_user FROM function_start f JOIN cpu_usage c WHERE " + calls, []probes.Command{probes.Sample{}}, false},
	} {
		t.Run(c.statement, func(t *testing.T) {
			if strings.Contains(c.statement, "FROM variable_value") {
				testenv.NeedWatchpoints(t)
			}
			st, err := parser.Parse(c.statement)
			if err != nil {
				t.Fatal(err)
			}
			p, err := planner.Plan(st.(*parser.Query), c.statement, s.env())
			if err != nil {
				t.Fatal(err)
			}
			q, err := s.prepare(t.Context(), c.statement, p)
			if err != nil {
				t.Fatal(err)
			}
			defer q.Abandon()
			for _, want := range c.supports {
				found := false
				for _, f := range q.Feeds {
					found = found || f.OwnInfo.Supports(want)
				}
				if !found {
					t.Errorf("no source supports %s", sourcetest.Name(want))
				}
			}
			for _, f := range q.Feeds {
				for _, other := range sourcetest.Commands() {
					wanted := slices.ContainsFunc(c.supports, func(s probes.Command) bool { return sourcetest.Name(s) == sourcetest.Name(other) })
					if c.only && !wanted && f.OwnInfo.Supports(other) {
						t.Errorf("it supports %s", sourcetest.Name(other))
					}
				}
				sourcetest.Contract(t, f.Own, nil)
			}
		})
	}
}

// openedSession is a session of a new engine.
func openedSession(t *testing.T, o wire.Options) *session {
	t.Helper()
	e, err := New(Options{ModelDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSession(t.Context(), e, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		e.Close()
	})
	return s
}

package uprobe

import (
	"fmt"
	"strings"
	"testing"

	"endoscope/planner/catalog"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// A query begins and ends for all of its functions at one instant, although the kernel
// attaches and detaches them one after the other: for functions that a program calls in
// turn, the numbers of calls differ by at most one.
func TestFunctionsBeginAndEndTogether(t *testing.T) {
	testenv.NeedUprobes(t)
	const functions = 200
	var code, calls strings.Builder
	var names []string
	for i := range functions {
		names = append(names, fmt.Sprintf("turn%d", i))
		fmt.Fprintf(&code, "NOINLINE void turn%d(void) { sink++; }\n", i)
		fmt.Fprintf(&calls, "turn%d(); ", i)
	}
	target := testenv.CompileCText(t, prelude+code.String()+`
#include <signal.h>
#include <sys/prctl.h>
int main(void) {
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ready();
	for (;;) { `+calls.String()+` usleep(100); }
}`, "-O1", "-fno-omit-frame-pointer") // they begin with push: a turn takes less time than attaching them
	for _, stream := range []string{catalog.FunctionStart, catalog.FunctionDuration} {
		t.Run(stream, func(t *testing.T) {
			p := provider(t, Options{})
			r := run(t, target)
			r.step() // it is always within a turn
			src, got := start(t, p, testplan.Acquire(stream, r.target(), testplan.Named(names...), "function_name"))
			rows := func() int {
				got.mu.Lock()
				defer got.mu.Unlock()
				return len(got.rows)
			}
			testenv.Until(t, "calls of every function come", func() bool { return rows() >= 20*functions })
			src.Stop()
			n := tally(got.wait(t).strings("function_name"))
			if len(got.lost) > 0 {
				t.Fatal(got.lost)
			}
			least, most := n[names[0]], n[names[0]]
			for _, name := range names {
				least, most = min(least, n[name]), max(most, n[name])
			}
			if most > least+1 || least < 19 {
				t.Errorf("of functions that are called in turn one was called %d times, another %d", least, most)
			}
		})
	}
}

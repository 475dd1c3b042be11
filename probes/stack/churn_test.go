package stack

import (
	"fmt"
	"strings"
	"testing"

	"endoscope/probes/testenv"
)

// Threads that switch all the time have a possible stack: a chain of calls without a
// gap, and a state that fits its innermost call. None is stopped for it.
func TestChurn(t *testing.T) {
	testenv.NeedUprobes(t)
	r := run(t, testenv.CompileC(t, "testdata/churn.c", "-O2", "-pthread", "-fno-optimize-sibling-calls"), "12")
	r.number(t)
	testenv.Once(t, func() error { // a thread that has no processor while it begins or ends is sampled again and again
		c := collect(t, r.pid)
		states := map[string]int{}
		samples, deepest := 0, 0
		testenv.Until(t, "many threads were seen, deep in their calls, at work and waiting", func() bool {
			for _, s := range snapshot(t, c) {
				samples++
				states[s.state]++
				n, err := walked(s)
				deepest = max(deepest, n)
				if err != nil && s.complete {
					t.Fatalf("%v: %s", err, strings.Join(s.functions, " "))
				}
			}
			return samples >= 1000 && deepest >= 8 && states["RUN"] > 0 && states["WAIT"] > 0
		})
		cut := uint64(0)
		for why, n := range c.unfinished {
			cut += n
			if n > 0 {
				t.Logf("%d stacks are cut: %s", n, cause(why))
			}
		}
		t.Logf("%d samples, %v; %d threads moved too fast, %d stacks cut", samples, states, c.missed, cut)
		// A thread that has not begun, or is about to end, may be at code without an
		// unwind table.
		if int(cut) > samples/200 || int(c.missed) > samples/50 {
			return fmt.Errorf("of %d samples %d stacks are cut and %d are missing", samples, cut, c.missed)
		}
		return nil
	})
}

// walked checks that the walk's functions are on the stack in their order, and
// returns how many there are.
func walked(s seen) (n int, err error) {
	for i := len(s.functions) - 1; i >= 0; i-- {
		switch f := s.functions[i]; {
		case f == fmt.Sprintf("down%d", n):
			n++
		case strings.HasPrefix(f, "down"):
			return n, fmt.Errorf("%s is called by down%d", f, n-1)
		case f == "bottom" && (n == 0 || i+1 == len(s.functions) || !strings.HasPrefix(s.functions[i+1], "down")):
			return n, fmt.Errorf("bottom is called by none of them")
		}
	}
	return n, nil
}

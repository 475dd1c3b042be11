package stack

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"endoscope/planner/types"
	"endoscope/probes/testenv"
)

// Every goroutine is found once, on its own stack: waiting goroutines from the
// runtime's list, those that run or are in a system call on their threads.
func TestGoroutines(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, flags := range [][]string{nil, {"-gcflags=-N -l"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			r := run(t, testenv.CompileGo(t, "testdata/goshapes", flags...))
			r.number(t)
			c := collect(t, r.pid)
			var found map[string]int
			look := func(o *observation) {
				var mine []string
				for _, f := range o.stack.value.([]types.Value) {
					v := f.A.([]types.Value)
					if strings.HasPrefix(v[0].S, "main.") && strings.Contains(v[0].S, ".gowrap") { // the compiler's wrapper for a go statement with arguments
						if v[2].S != originUser {
							t.Errorf("%s is of the system", v[0].S)
						}
					} else if name, ok := strings.CutPrefix(v[0].S, "main."); ok {
						mine = append(mine, name)
						if v[2].S != originUser {
							t.Errorf("%s is of the system", v[0].S)
						}
					} else if v[2].S != originSystem {
						t.Errorf("%s is the user's", v[0].S)
					}
				}
				if !o.stack.complete {
					t.Errorf("goroutine %d, thread %d: %s after %v", o.goroutine, o.tid, o.cause, o.stack.value)
				}
				if len(mine) > 0 {
					on := "thread"
					if o.goroutine != 0 {
						on = "parked"
					}
					found[fmt.Sprintf("%s %s %s", strings.Join(slices.Compact(mine), " "), on, o.state)]++
				}
			}
			// Threads are sampled one after the other: a running goroutine may move to
			// another thread meanwhile, and so be found twice or not at all.
			testenv.UntilNil(t, "each goroutine is found in its place", func() error {
				found = map[string]int{}
				if err := c.snapshotThreads(look); err != nil {
					t.Fatal(err)
				}
				for _, want := range []string{
					"receive main parked WAIT", "receive viaReceive parked WAIT", "choose parked WAIT", "lock parked BLOCKED", "await parked WAIT", "doze parked WAIT",
					"(*server).serve parked IO", "receive deep main.func1 parked WAIT", "system thread IO", "spin thread RUN",
				} {
					if found[want] != 1 {
						return fmt.Errorf("%q is found %d times: %v", want, found[want], found)
					}
					delete(found, want)
				}
				if len(found) > 0 {
					return fmt.Errorf("also found: %v", found)
				}
				return nil
			})
		})
	}
}

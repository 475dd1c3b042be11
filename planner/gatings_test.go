package planner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"endoscope/planner/order"
	"endoscope/planner/plan"
)

// able returns the abilities of the sources of the tests: the kernel tests every
// condition on calls that does not read exe.
func able(a *plan.Acquire) plan.Ability {
	switch {
	case a.Stream == "function_call":
		return plan.Ability{Why: "a sequence of calls must be complete", Closed: "a sequence opens nothing"}
	case strings.HasPrefix(a.Stream, "function_"):
		if a.Filter != nil && strings.Contains(a.Filter.String(), "exe") {
			return plan.Ability{Gate: plan.AtEntry, Closed: "the kernel does not test exe"}
		}
		return plan.Ability{Gate: plan.AtEntry, Opens: true}
	case a.Every > 0:
		p := plan.Ability{Gate: plan.Paused, Closed: "a sampler's condition is not tested in the kernel"}
		if a.Stream == "cpu_usage" {
			p.Lag = 100 * time.Millisecond
		}
		return p
	}
	return plan.Ability{Why: "a file is read, not acquired", Closed: "a file opens nothing"}
}

// TestGatings runs testdata/order: the ways to acquire the inputs of joins, as
// join_gating = exact and as gated would have them.
func TestGatings(t *testing.T) {
	datadriven.Walk(t, "testdata/order", func(t *testing.T, path string) {
		env := testEnv()
		env.Target = plan.Target{PIDs: []int{42}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			q, err := planOf(t, d.Input, env)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			for _, g := range order.Gatings(q.Root, able, d.Cmd == "gated") {
				side := "right"
				if g.Left {
					side = "left"
				}
				fmt.Fprintf(&b, "%s: ", side)
				if g.Refused != "" {
					fmt.Fprintf(&b, "refused: %s\n", g.Refused)
					continue
				}
				fmt.Fprintf(&b, "%s opens %s: %s, -%s +%s", g.OpenerName, g.GatedName, g.Way, g.Before, g.Within)
				if g.Kernel {
					b.WriteString(", in the kernel")
				}
				if g.Exact {
					b.WriteString(", exact\n")
				} else {
					fmt.Fprintf(&b, ", not exact: %s\n", g.Inexact)
				}
			}
			return b.String()
		})
	})
}

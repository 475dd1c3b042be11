package planner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"endoscope/operators/optest"
	"endoscope/parser"
	"endoscope/planner/plan"
	"endoscope/planner/plan/planpb"
)

// TestShares runs testdata/hosts: the part of each statement that the host a
// executes, and the part that the root of several hosts executes, as decoded by
// the root.
func TestShares(t *testing.T) {
	datadriven.Walk(t, "testdata/hosts", func(t *testing.T, path string) {
		env := testEnv()
		env.Host = "a"
		env.Target = plan.Target{PIDs: []int{42}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "create" {
				c := mustParse(t, d.Input).(*parser.CreateStream)
				env.Views.Put(c, c.Name.Name, true)
				return ""
			}
			lower, upper, err := PlanShare(mustParse(t, d.Input).(*parser.Query), d.Input, env)
			if err != nil {
				return err.Error()
			}
			sent, err := planpb.Encode(upper)
			if err != nil {
				return err.Error()
			}
			if upper, err = planpb.Decode(sent); err != nil {
				return err.Error()
			}
			return "host:\n" + indented(optest.Tree(lower.Root)) + exchangeText(upper.Exchange) + "root:\n" + indented(optest.Tree(upper.Upper))
		})
	})
}

func exchangeText(x *plan.Exchange) string {
	text := fmt.Sprintf("%s %s, columns %v", x.Kind, [...]string{"once", "per window", "per session", "per round", "per change"}[x.Again], x.Pick)
	switch x.Again {
	case plan.PerSession:
		text += fmt.Sprintf(", gap %v, first %d, last %d, count %d, partition %d of %d", x.Gap, x.Spans.First, x.Spans.Last, x.Spans.Count, x.Spans.Partition, x.Spans.Partitions)
		fallthrough
	case plan.PerWindow:
		text += fmt.Sprintf(", borders %d and %d", x.Start, x.End)
	}
	if x.Kind == plan.MergeOrdered {
		text += fmt.Sprintf(", time %d", x.Time)
	}
	if x.Limit > 0 {
		text += fmt.Sprintf(", limit %d", x.Limit)
	}
	if len(x.Notices) > 0 {
		text += "\nnotices: " + strings.Join(x.Notices, "; ")
	}
	return text + "\n"
}

// The hosts acquire lines of stacks where only the root reads them.
func TestSharesOfLines(t *testing.T) {
	env := testEnv()
	env.Host = "a"
	env.Target = plan.Target{PIDs: []int{42}}
	for text, want := range map[string]bool{
		"SELECT frame(stack, 1).line, COUNT(*) FROM function_start GROUP BY stack FOR 1s": true,
		"SELECT frame(stack, 1), COUNT(*) FROM function_start GROUP BY stack FOR 1s":      false,
	} {
		lower, upper, err := PlanShare(mustParse(t, text).(*parser.Query), text, env)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(optest.Tree(lower.Root), "frame(") || !strings.Contains(optest.Tree(upper.Upper), "frame(") {
			t.Fatalf("%s: the host has %s, the root %s", text, optest.Tree(lower.Root), optest.Tree(upper.Upper))
		}
		if got := plan.Leaves(lower.Root)[0].Lines; got != want {
			t.Errorf("%s: lines %v, want %v", text, got, want)
		}
	}
}

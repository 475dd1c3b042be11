package planner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"endoscope/operators/optest"
	"endoscope/parser"
	"endoscope/planner/definitions"
	"endoscope/planner/plan"
)

// TestTriggers runs testdata/trigger: each CREATE TRIGGER is planned and printed,
// and defined for the following cases. "create" defines a stream, "use" sets the
// session's target, "drop" drops a trigger.
func TestTriggers(t *testing.T) {
	datadriven.Walk(t, "testdata/trigger", func(t *testing.T, path string) {
		env := testEnv()
		env.Triggers = definitions.NewTriggers()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "use":
				env.Target = plan.Target{PIDs: []int{42}}
				return ""
			case "create":
				c := mustParse(t, d.Input).(*parser.CreateStream)
				if err := CheckView(c, d.Input, env); err != nil {
					return err.Error()
				}
				env.Views.Put(mustParse(t, c.String()).(*parser.CreateStream), c.Name.Name, true)
				return ""
			case "drop":
				env.Triggers.Drop(d.Input)
				return ""
			case "plan":
				return planText(t, d.Input, env)
			case "trigger":
				tr, err := PlanTrigger(mustParse(t, d.Input).(*parser.CreateTrigger), d.Input, env)
				if err != nil {
					return err.Error()
				}
				env.Triggers.Put(tr.Key, tr.Flow)
				return triggerText(t, tr)
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

func triggerText(t *testing.T, tr *Trigger) string {
	checkPlan(t, tr.When.Root)
	var b strings.Builder
	mode := "continuous"
	if tr.Once {
		mode = "once"
	}
	fmt.Fprintf(&b, "%s %s: ", mode, tr.Name)
	if fields := tr.When.Root.Schema().Fields; tr.Condition < 0 {
		b.WriteString("each tuple activates")
	} else {
		fmt.Fprintf(&b, "activated by tuples with %s", fields[tr.Condition].Name)
	}
	if tr.Time >= 0 {
		fmt.Fprintf(&b, ", at their %s", tr.When.Root.Schema().Fields[tr.Time].Name)
	}
	b.WriteString("\n")
	for i, f := range tr.Tuple {
		if i == 0 {
			b.WriteString("shown:")
		}
		b.WriteString(" " + f.Name)
		if i == len(tr.Tuple)-1 {
			b.WriteString("\n")
		}
	}
	b.WriteString(optest.Tree(tr.When.Root))
	for _, a := range tr.Actions {
		b.WriteString(a.Text)
		if a.For > 0 && a.Kind != ActRecall {
			fmt.Fprintf(&b, " (for %s after each activation)", plan.FormatDuration(int64(a.For)))
		}
		b.WriteString("\n")
		if a.Query != nil {
			checkPlan(t, a.Query.Root)
			b.WriteString("  " + strings.ReplaceAll(strings.TrimSuffix(optest.Tree(a.Query.Root), "\n"), "\n", "\n  ") + "\n")
		}
	}
	for _, n := range tr.Notices {
		fmt.Fprintf(&b, "notice: %s\n", n)
	}
	return b.String()
}

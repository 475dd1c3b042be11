package planner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"endoscope/operators/optest"
	"endoscope/parser"
	"endoscope/planner/plan"
)

// TestExports runs testdata/export: each CREATE EXPORT is planned and printed.
func TestExports(t *testing.T) {
	datadriven.Walk(t, "testdata/export", func(t *testing.T, path string) {
		env := testEnv()
		env.Target = plan.Target{PIDs: []int{42}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			e, err := PlanExport(mustParse(t, d.Input).(*parser.CreateExport), d.Input, env)
			if err != nil {
				return err.Error()
			}
			return exportText(t, e)
		})
	})
}

func exportText(t *testing.T, e *Export) string {
	checkPlan(t, e.Query.Root)
	var b strings.Builder
	fields := e.Query.Root.Schema().Fields
	for _, m := range e.Metrics {
		fmt.Fprintf(&b, "%s: %s, column %d", m.FullName(), m.Kind, m.Column)
		if m.Kind >= Exponential {
			fmt.Fprintf(&b, ", sum in column %d", m.Sum)
		}
		if m.Borders != nil {
			fmt.Fprintf(&b, ", borders %v", m.Borders)
		}
		b.WriteString("\n")
	}
	for _, l := range e.Labels {
		fmt.Fprintf(&b, "label %s: %s\n", l.Name, fields[l.Column].Name)
	}
	if s := e.Spans; s != nil {
		for _, c := range []struct {
			what string
			at   int
		}{{"name", s.Name}, {"event", s.Event}, {"start", s.Start}, {"end", s.End}, {"thread", s.TID}, {"goroutine", s.Goroutine}, {"depth", s.Depth}, {"trace", s.Trace}} {
			if c.at >= 0 {
				fmt.Fprintf(&b, "span's %s: %s\n", c.what, fields[c.at].Name)
			}
		}
	}
	for _, n := range e.Notices {
		fmt.Fprintf(&b, "notice: %s\n", n)
	}
	return b.String() + optest.Tree(e.Query.Root)
}

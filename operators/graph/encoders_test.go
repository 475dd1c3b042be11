package graph_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"endoscope/operators/optest"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// TestEncoders runs testdata/encoders: as scripts, without an oracle, which the
// algorithms have in their own package. A row is printed with a cell a line,
// and an empty line behind it.
func TestEncoders(t *testing.T) {
	datadriven.Walk(t, "testdata/encoders", func(t *testing.T, path string) {
		var in *optest.Input
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "load" {
				var err error
				if in, err = optest.ParseInput(d.Input); err != nil {
					d.Fatalf(t, "%v", err)
				}
				return ""
			}
			root, err := planOf(d.Input, in)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			out, err := fast{}.Run(root, in)
			if err != nil {
				return fmt.Sprintf("error: %v\n", err)
			}
			var b strings.Builder
			for _, rows := range out.Results {
				for _, row := range rows.Rows {
					for _, v := range row {
						b.WriteString(cell(v) + "\n")
					}
					b.WriteString("\n")
				}
			}
			return b.String()
		})
	})
}

func cell(v types.Value) string {
	if v.Type == types.Encoding && !v.IsNull {
		return fmt.Sprint(v.A)
	}
	return plan.FormatValue(v)
}

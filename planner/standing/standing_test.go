package standing

import (
	"testing"

	"github.com/cockroachdb/datadriven"

	"endoscope/parser"
)

// TestQueries runs testdata/queries: what hosts execute of each query, or why it is refused.
func TestQueries(t *testing.T) {
	datadriven.RunTest(t, "testdata/queries", func(t *testing.T, d *datadriven.TestData) string {
		st, err := parser.Parse(d.Input)
		if err != nil {
			t.Fatal(err)
		}
		q, err := Query(st.(*parser.Query), d.Input)
		if err != nil {
			return err.Error()
		}
		return q.String()
	})
}

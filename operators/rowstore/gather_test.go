package rowstore

import (
	"fmt"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/types"
)

// Interleaved strings of many dictionaries end in one that does not grow for
// ever.
func TestUnionBoundsDictionary(t *testing.T) {
	g := NewGatherer([]types.Type{types.Varchar})
	var last *batch.Dict
	changed := 0
	for i := range 200 {
		b := batch.New([]types.Type{types.Varchar})
		for j := range batch.MaxRows {
			b.AppendRow(types.Str(fmt.Sprint(i, " ", j)))
		}
		g.Add(b, batch.RowsOf(b))
		out := g.Finish()
		if got := out.Cols[0].Value(7).S; got != fmt.Sprint(i, " 7") {
			t.Fatalf("row is %q", got)
		}
		if n := out.Cols[0].Dict.Len(); n > MaxDict+batch.MaxRows {
			t.Fatalf("%d strings", n)
		}
		if out.Cols[0].Dict != last {
			last = out.Cols[0].Dict
			changed++
		}
		out.Release()
	}
	if changed != 4 {
		t.Errorf("%d dictionaries", changed)
	}
	if len(g.tr[0].tables) > MaxTables {
		t.Errorf("%d tables", len(g.tr[0].tables))
	}
}

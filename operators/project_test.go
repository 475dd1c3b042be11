package operators

import (
	"context"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
)

func projection1(in plan.Node) plan.Node {
	sum := call(batch.Bigint, "+", column(in, "x"), literal(batch.Int(1)))
	up := call(batch.Varchar, "upper", column(in, "s"))
	return &plan.Project{Input: in, Exprs: []plan.Expr{up, sum, column(in, "x"), column(in, "x")},
		Out: plan.Schema{Time: -1, Fields: []plan.Field{
			{Name: "up", Type: batch.Varchar}, {Name: "sum", Type: batch.Bigint},
			{Name: "x", Type: batch.Bigint}, {Name: "again", Type: batch.Bigint}}}}
}

// Columns are computed, renamed, reordered and repeated.
func TestProject(t *testing.T) {
	got := play(t, projection1(relation("x:bigint s:varchar")), Options{}, `
		1 a
		null b
		--
		3 null
		wm 3
		4 a
		close`)
	expect(t, got, `
		A 2 1 1
		B null null null
		null 4 3 3
		wm 3
		A 5 4 4
		close`)
}

// keeper is a consumer that keeps batches beyond the call.
type keeper struct {
	recorder
	kept []*batch.Batch
}

func (k *keeper) Push(_ context.Context, _ int, b *batch.Batch) (Status, error) {
	k.kept = append(k.kept, b.Retain())
	return More, nil
}

// What a consumer keeps is not overwritten by the next batch, neither in the
// shared columns nor in the computed ones.
func TestProjectResultMayBeKept(t *testing.T) {
	in := relation("x:bigint s:varchar")
	k := &keeper{}
	g, err := Build(projection1(positive(in)), k, &Options{})
	if err != nil {
		t.Fatal(err)
	}
	pool := batch.NewPool(in.Out.Types())
	for i := range 4 {
		b := pool.Get()
		b.AppendRow(batch.Int(-1), batch.Str("no"))
		b.AppendRow(batch.Int(int64(i+1)), batch.Str("s"+string(rune('a'+i))))
		if _, err := g.Leaves[0].Op.Push(t.Context(), 0, b); err != nil {
			t.Fatal(err)
		}
		b.Release()
	}
	for _, b := range k.kept {
		k.recorder.Push(t.Context(), 0, b)
		b.Release()
	}
	expect(t, k.text.String(), `
		SA 2 1 1
		SB 3 2 2
		SC 4 3 3
		SD 5 4 4`)
}

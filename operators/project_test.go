package operators

import (
	"context"
	"strings"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

func projection1(in plan.Node) plan.Node {
	sum := call(types.Bigint, "+", column(in, "x"), literal(types.Int(1)))
	up := call(types.Varchar, "upper", column(in, "s"))
	return &plan.Project{Input: in, Exprs: []plan.Expr{up, sum, column(in, "x"), column(in, "x")},
		Out: types.Schema{Time: -1, Fields: []types.Field{
			{Name: "up", Type: types.Varchar}, {Name: "sum", Type: types.Bigint},
			{Name: "x", Type: types.Bigint}, {Name: "again", Type: types.Bigint}}}}
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
		b.AppendRow(types.Int(-1), types.Str("no"))
		b.AppendRow(types.Int(int64(i+1)), types.Str("s"+string(rune('a'+i))))
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

// Results of every layout are copied out of the programs that own them.
func TestProjectTypes(t *testing.T) {
	in := relation("x:bigint f:double s:varchar l:list")
	exprs := []plan.Expr{
		call(types.Boolean, ">", column(in, "x"), literal(types.Int(1))),
		call(types.Double, "neg", column(in, "f")),
		call(types.Varchar, "||", column(in, "s"), literal(types.Str("!"))),
		call(types.List, "coalesce", column(in, "l"), column(in, "l")),
		literal(types.NullOf(types.Null)),
	}
	n := &plan.Project{Input: in, Exprs: exprs, Out: types.Schema{Time: -1}}
	for _, e := range exprs {
		n.Out.Fields = append(n.Out.Fields, types.Field{Name: e.String(), Type: e.Type()})
	}
	expect(t, play(t, n, Options{}, `
		1 1.5 a p,q
		2 -1 b r
		null null null null
		close`), `
		false -1.5 a! p,q null
		true 1 b! r null
		null null null null null
		close`)
}

// An error in a value ends the query, wherever it is computed.
func TestErrorsInExpressions(t *testing.T) {
	in := relation("x:bigint")
	next := call(types.Bigint, "+", column(in, "x"), literal(types.Int(1)))
	for _, n := range []plan.Node{
		&plan.Project{Input: in, Exprs: []plan.Expr{next}, Out: types.Schema{Fields: []types.Field{{Name: "y", Type: types.Bigint}}, Time: -1}},
		&plan.Filter{Input: in, Cond: call(types.Boolean, ">", next, literal(types.Int(0)))},
		&plan.Sort{Input: in, Keys: []plan.SortKey{{X: next}}},
	} {
		got := play(t, n, Options{}, "9223372036854775807\nclose")
		if !strings.HasPrefix(got, "error: ") || strings.Contains(got, "close") {
			t.Errorf("%s: %s", n.Describe(), got)
		}
	}
}

package expr

import (
	"slices"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// counter counts the rows that a node is asked for.
type counter struct {
	node
	rows int
}

func (c *counter) eval(f *frame, r rows) (*batch.Column, error) {
	c.rows += r.len()
	return c.node.eval(f, r)
}

// counted compiles e, which must become a table, with its body counted.
func counted(t *testing.T, e plan.Expr, in []types.Type) (*Program, *counter) {
	t.Helper()
	p := mustCompile(t, e, in)
	table, ok := p.root.(*tableNode)
	if !ok {
		t.Fatalf("%s is a %T, not a table", e, p.root)
	}
	c := &counter{node: table.body}
	table.body = c
	return p, c
}

func TestTabular(t *testing.T) {
	in := []types.Type{types.Varchar, types.Varchar, types.Bigint}
	s, u, n := col(0, types.Varchar), col(1, types.Varchar), col(2, types.Bigint)
	for _, c := range []struct {
		e    plan.Expr
		want bool
	}{
		{call("=", s, str("x")), true},
		{call("and", call("=", s, str("x")), call("like", s, str("%y"))), true},
		{call("length", call("lower", s)), true},
		{call("coalesce", s, str("none")), true},
		{cast(s, types.Bigint), true},
		{&plan.Case{T: types.Bigint, Whens: []plan.When{{Cond: call("=", s, str("x")), Then: num(1)}}}, true},
		{s, false},
		{cast(s, types.Bytes), false},
		{call("is null", s), false},
		{call("not", call("is null", s)), false},
		{call("=", s, u), false},
		{call("substr", s, n), false},
		{call("=", n, num(1)), false},
		{call("date_trunc", s, call("now")), false},
	} {
		if _, got := mustCompile(t, c.e, in).root.(*tableNode); got != c.want {
			t.Errorf("%s: table %v, want %v", c.e, got, c.want)
		}
	}
}

// TestTableComputesEachEntryOnce follows a dictionary as it grows, others that
// take turns with it, and one too many.
func TestTableComputesEachEntryOnce(t *testing.T) {
	in := []types.Type{types.Varchar}
	upper := call("upper", col(0, types.Varchar))
	p, c := counted(t, upper, in)
	dicts := make([]*batch.Dict, maxTables+1)
	for k := range dicts {
		dicts[k] = batch.NewDict()
	}
	for _, step := range []struct {
		dict     int
		in, want []string
		computed int // rows that the body is asked for in this step
	}{
		{0, []string{"a", "b", "a"}, []string{"A", "B", "A"}, 2},
		{0, []string{"b", "b", "a"}, []string{"B", "B", "A"}, 0},
		{0, []string{"b", "c", "NULL"}, []string{"B", "C", "NULL"}, 2},
		{0, []string{"NULL", "c", "NULL"}, []string{"NULL", "C", "NULL"}, 0},
		{1, []string{"c", "a", "b"}, []string{"C", "A", "B"}, 3},
		{2, []string{"b"}, []string{"B"}, 1},
		{3, []string{"c"}, []string{"C"}, 1},
		{0, []string{"a", "c", "b"}, []string{"A", "C", "B"}, 0},
		{1, []string{"b", "c", "a"}, []string{"B", "C", "A"}, 0},
		{4, []string{"z"}, []string{"Z"}, 1}, // takes the place of the oldest
		{0, []string{"a"}, []string{"A"}, 1},
		{4, []string{"z"}, []string{"Z"}, 0},
	} {
		bt := batch.New(in)
		bt.Cols[0].Dict = dicts[step.dict]
		for _, s := range step.in {
			if s == "NULL" {
				bt.AppendRow(N(types.Varchar))
			} else {
				bt.AppendRow(S(s))
			}
		}
		before := c.rows
		col, err := p.Eval(bt)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range bt.N {
			if v := col.Value(i); v.IsNull {
				got = append(got, "NULL")
			} else {
				got = append(got, v.S)
			}
		}
		if !slices.Equal(got, step.want) || c.rows-before != step.computed {
			t.Errorf("dictionary %d, %v: %v with %d computed; want %v with %d",
				step.dict, step.in, got, c.rows-before, step.want, step.computed)
		}
	}
}

// TestTableComputesNeededEntriesOnly: an entry that would fail is no error
// while no row that counts has it.
func TestTableComputesNeededEntriesOnly(t *testing.T) {
	in := []types.Type{types.Varchar}
	p, c := counted(t, call("neg", cast(col(0, types.Varchar), types.Bigint)), in)
	bt := batchOf(in, vs(S("1")), vs(S("-9223372036854775808")), vs(S("x")))
	bt.Sel = []uint16{0, 2}
	got, err := p.Eval(bt)
	if err != nil || got.Int[0] != -1 || !got.Nulls.Get(2) || c.rows != 2 {
		t.Errorf("got %v, %v after %d entries", got, err, c.rows)
	}
	bt.Sel = nil
	for range 2 { // an error is not taken for a result later
		if _, err := p.Eval(bt); err == nil {
			t.Error("no error for an entry that overflows")
		}
	}
	bt.Sel = []uint16{0}
	if got, err = p.Eval(bt); err != nil || got.Int[0] != -1 {
		t.Errorf("after an error: %v, %v", got, err)
	}
}

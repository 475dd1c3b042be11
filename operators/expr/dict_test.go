package expr

import (
	"fmt"
	"slices"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// TestOwnDictionaryRotates: an endless supply of texts does not fill memory,
// and results handed out before keep their meaning.
func TestOwnDictionaryRotates(t *testing.T) {
	in := []types.Type{types.Bigint, types.Varchar}
	n, s := col(0, types.Bigint), col(1, types.Varchar)
	text := cast(n, types.Varchar)
	always := func(e plan.Expr) plan.Expr {
		return &plan.Case{T: types.Varchar, Whens: []plan.When{{Cond: call(">=", n, num(0)), Then: e}}}
	}
	for _, e := range []plan.Expr{
		call("||", text, str("")), // made row by row
		call("substr", s, num(1)), // from a table
		always(s),                 // translated from the source's dictionary
		always(text),              // translated from one that rotates too
		call("coalesce", cast(s, types.Bigint), num(0)), // no dictionary: nothing to rotate
	} {
		rotates(t, e, in)
	}
}

// rotates evaluates e, which gives a number's text or the number, over more
// numbers than a dictionary keeps.
func rotates(t *testing.T, e plan.Expr, in []types.Type) {
	t.Helper()
	const batches, newSource = 70, 35
	p := mustCompile(t, e, in)
	source := batch.NewDict()
	used := map[*batch.Dict]bool{}
	var first batch.Column
	var again *batch.Batch // evaluated before and after the rotation
	check := func(bt *batch.Batch) *batch.Column {
		c, err := p.Eval(bt)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range c.Code {
			if int(code) >= len(c.Values) {
				t.Fatalf("%s: code %d of %d", e, code, len(c.Values))
			}
		}
		for k := range bt.Len() {
			i := bt.Row(k)
			got, want := c.Value(i), bt.Cols[0].Int[i]
			if got.S != fmt.Sprint(want) && got.I != want {
				t.Fatalf("%s of %d is %+v", e, want, got)
			}
		}
		return c
	}
	for n := range batches {
		bt := batch.New(in)
		if n == newSource { // as a source does with unbounded strings
			source, again = batch.NewDict(), bt
		}
		bt.Cols[1].Dict = source
		for i := range batch.MaxRows {
			k := int64(n*batch.MaxRows + i + 1)
			bt.AppendRow(I(k), S(fmt.Sprint(k)))
		}
		if n > newSource { // the last row keeps what it had
			bt.Sel = rows{n: bt.N - 1}.appendTo(nil)
		}
		c := check(bt)
		if c.Dict == nil {
			continue
		}
		if n == 0 {
			first = *c
			first.Code = slices.Clone(c.Code)
		}
		used[c.Dict] = true
		if c.Dict.Len() > maxDict+batch.MaxRows+1 {
			t.Fatalf("%s: a dictionary of %d", e, c.Dict.Len())
		}
	}
	check(again)
	if e.Type() != types.Varchar {
		return
	}
	if len(used) != 2 {
		t.Errorf("%s used %d dictionaries, want 2", e, len(used))
	}
	if got := first.Value(5).S; got != "6" {
		t.Errorf("%s: an earlier result has become %q", e, got)
	}
}

package expr

import (
	"testing"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// TestCase takes branches of each type from columns with and without NULLs
// and from constants: WHEN k = 1 THEN x WHEN k = 2 THEN y [ELSE constant].
func TestCase(t *testing.T) {
	for _, c := range []struct {
		typ     types.Type
		x, y, z types.Value
	}{
		{types.Boolean, B(true), B(false), B(true)},
		{types.Bigint, I(5), I(6), I(7)},
		{types.Double, F(5), F(6), F(7)},
		{types.Varchar, S("x"), S("y"), S("z")},
		{types.Bytes, raw("x"), raw("y"), raw("z")},
		{types.Timestamp, T(5), T(6), T(7)},
		{types.List, types.ListOf(vs(I(5))), types.ListOf(nil), types.ListOf(vs(I(7)))},
	} {
		in := []types.Type{types.Bigint, c.typ, c.typ}
		k, x, y := col(0, types.Bigint), col(1, c.typ), col(2, c.typ)
		null := N(c.typ)
		bt := batchOf(in,
			vs(I(1), c.x, c.y), vs(I(2), c.x, c.y), vs(I(3), c.x, c.y), vs(N(types.Bigint), c.x, c.y),
			vs(I(1), null, c.y), vs(I(2), c.x, null), vs(I(1), c.x, null))
		whens := []plan.When{{Cond: call("=", k, num(1)), Then: x}, {Cond: call("=", k, num(2)), Then: y}}
		for _, e := range []struct {
			e    *plan.Case
			want []types.Value
		}{
			{&plan.Case{T: c.typ, Whens: whens}, vs(c.x, c.y, null, null, null, null, c.x)},
			{&plan.Case{T: c.typ, Whens: whens, Else: lit(c.z)}, vs(c.x, c.y, c.z, c.z, null, null, c.x)},
			{&plan.Case{T: c.typ, Whens: whens, Else: lit(N(types.Null))}, vs(c.x, c.y, null, null, null, null, c.x)},
			{&plan.Case{T: c.typ, Whens: []plan.When{{Cond: boolean(true), Then: x}, {Cond: boolean(true), Then: y}}},
				vs(c.x, c.x, c.x, c.x, null, c.x, c.x)},
			{&plan.Case{T: c.typ, Whens: []plan.When{{Cond: lit(N(types.Boolean)), Then: x}}, Else: lit(c.z)},
				vs(c.z, c.z, c.z, c.z, c.z, c.z, c.z)},
		} {
			col, err := mustCompile(t, e.e, in).Eval(bt)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range e.want {
				if got := col.Value(i); !sameValue(got, want) {
					t.Errorf("%s row %d: %+v, want %+v", e.e, i, got, want)
				}
			}
		}
	}
}

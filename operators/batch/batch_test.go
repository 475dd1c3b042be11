package batch

import (
	"testing"

	"pgregory.net/rapid"

	_ "endoscope/operators/optest/seeds" // the same cases in every run
	"endoscope/planner/types"
)

// What is appended to a batch is what it has, NULLs included.
func TestBatchValues(t *testing.T) {
	s := []types.Type{types.Boolean, types.Bigint, types.Double, types.Varchar, types.Timestamp, types.Duration, types.Bytes, types.List}
	rows := [][]types.Value{
		{types.Bool(true), types.Int(-1), types.Float(0.5), types.Str("a"), types.Time(7), types.Dur(8), {Type: types.Bytes, S: "\x00"}, types.ListOf([]types.Value{types.Int(1)})},
		{types.NullOf(types.Boolean), types.NullOf(types.Bigint), types.NullOf(types.Double), types.NullOf(types.Varchar), types.NullOf(types.Timestamp), types.NullOf(types.Duration), types.NullOf(types.Bytes), types.NullOf(types.List)},
		{types.Bool(false), types.Int(1), types.Float(-0.5), types.Str(""), types.Time(0), types.Dur(-8), {Type: types.Bytes, S: "b"}, types.ListOf(nil)},
	}
	b := New(s)
	for range 50 { // beyond one word of NULL bits
		for _, r := range rows {
			b.AppendRow(r...)
		}
	}
	for i := range b.Len() {
		for c, want := range rows[i%3] {
			got := b.Cols[c].Value(b.Row(i))
			if got.Type != want.Type || got.IsNull != want.IsNull || got.I != want.I || got.F != want.F || got.S != want.S {
				t.Errorf("row %d, %s: %v, not %v", i, s[c], got, want)
			}
		}
	}
}

// A column of NULLs alone still has codes that are valid indexes.
func TestNullCodesAreValid(t *testing.T) {
	b := New([]types.Type{types.Varchar})
	b.AppendRow(types.NullOf(types.Varchar))
	if c := &b.Cols[0]; int(c.Code[0]) >= len(c.Values) {
		t.Errorf("code %d of %d values", c.Code[0], len(c.Values))
	}
}

// A batch goes back to its pool with the last of its holders and comes out
// empty, with the pool's dictionary.
func TestPoolReuse(t *testing.T) {
	p := NewPool([]types.Type{types.Varchar, types.Bigint, types.List})
	b := p.Get()
	b.AppendRow(types.Str("a"), types.NullOf(types.Bigint), types.ListOf(nil))
	b.Sel = []uint16{0}
	v := b.View([]uint16{0})
	b.Release()
	if got := v.Cols[0].Value(0).S; got != "a" {
		t.Errorf("a view's value is %q after its batch was released by another", got)
	}
	v.Release()
	n := p.Get()
	if n.N != 0 || n.Sel != nil || len(n.Cols[1].Nulls) != 0 || len(n.Cols[1].Int) != 0 {
		t.Errorf("a new batch has rows: %+v", n)
	}
	if n.Cols[0].Dict != p.Dict(0) || p.Dict(0).Code("a") != 0 {
		t.Error("a new batch has another dictionary")
	}
	if p.Dict(1) != nil {
		t.Error("a BIGINT column has a dictionary")
	}
}

func TestBitmapIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b Bitmap
		want := map[int]bool{}
		for _, i := range rapid.SliceOf(rapid.IntRange(0, MaxRows-1)).Draw(t, "set") {
			b.Set(i)
			want[i] = true
		}
		for i := range 2 * MaxRows {
			if b.Get(i) != want[i] {
				t.Fatalf("bit %d is %v", i, b.Get(i))
			}
		}
		if b.Any() != (len(want) > 0) {
			t.Fatalf("Any is %v with %d bits", b.Any(), len(want))
		}
	})
}

func TestParseType(t *testing.T) {
	for typ := types.Boolean; typ <= types.Bytes; typ++ {
		if got, ok := types.ParseType(typ.String()); !ok || got != typ {
			t.Errorf("%s parses as %s", typ, got)
		}
	}
	for name, want := range map[string]types.Type{"int": types.Bigint, "Text": types.Varchar, "float": types.Double, "interval": types.Duration} {
		if got, _ := types.ParseType(name); got != want {
			t.Errorf("%s is %s, not %s", name, got, want)
		}
	}
	if _, ok := types.ParseType("list"); ok {
		t.Error("LIST is no type to cast to")
	}
}

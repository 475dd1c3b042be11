package signature

import (
	"debug/dwarf"
	"encoding/binary"
	"math"
	"testing"

	"endoscope/probes/codegen"
	"endoscope/probes/dwarf/op"
)

// wholeOf reads an object of a type as a whole.
func wholeOf(t *testing.T, f *Info, at dwarf.Offset, pieces []op.Piece) (Value, error) {
	t.Helper()
	typ, err := f.typeOf(at)
	if err != nil {
		t.Fatal(err)
	}
	o := object{t: typ, pieces: pieces}
	if pieces == nil {
		o.memory, o.base = true, codegen.Integer{Register: registers[dwDI]}
	}
	return (&Function{info: f}).whole(o)
}

// TestPartsOfRegisters: a struct in registers of several kinds. What is in an XMM register is
// null.
func TestPartsOfRegisters(t *testing.T) {
	integer, double := base("int", 5, 4), base("double", 4, 8)
	s := structOf(24, field("a", 0, integer), field("b", 4, integer), field("d", 8, double), field("c", 16, integer))
	f, at := infoOf(t, integer, double, s)
	v, err := wholeOf(t, f, at[s], []op.Piece{
		{Kind: op.InRegister, Register: dwDI, At: 0, Size: 8},
		{Kind: op.InRegister, Register: dwXMM0, At: 8, Size: 8},
		{Kind: op.Constant, Offset: 7, At: 16, Size: 8},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Text.Parts) != 2 || v.Text.Parts[0].At.Register != registers[dwDI] || v.Text.Parts[0].Offset != 0 || v.Text.Parts[1].At.Constant != 7 || v.Text.Parts[1].Offset != 16 {
		t.Errorf("%+v", v.Text.Parts)
	}
	if v.Lacks == nil {
		t.Error("nothing is said of d")
	}
	object := make([]byte, v.Text.Max)
	binary.LittleEndian.PutUint64(object, uint64(math.MaxUint32)<<32|5)
	binary.LittleEndian.PutUint64(object[16:], 7)
	if got, want := string(v.Shape.AppendJSON(nil, object)), `{"a": 5, "b": -1, "d": null, "c": 7}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if v, err := wholeOf(t, f, at[s], []op.Piece{{Kind: op.InRegister, Register: dwXMM0, Size: 8}}); err == nil {
		t.Errorf("%+v is read of a struct in an XMM register", v.Text.Parts)
	}
}

// TestWholeObjectsAreBounded: what debug information says of sizes need not be true.
func TestWholeObjectsAreBounded(t *testing.T) {
	for _, size := range []int64{-1, math.MinInt64, 0, 1, 8, maxWhole, maxWhole + 1, 1 << 32, 1 << 62, math.MaxInt64} {
		for _, offset := range []int64{0, 8, 1 << 62, math.MaxInt64, -8, math.MinInt64} {
			inner := base("inner", 5, size)
			array := of(dwarf.TagArrayType, inner)
			array.Attrs[dwarf.AttrByteSize] = int64(16)
			array.Children = []*entry{{Tag: dwarf.TagSubrangeType, Attrs: attrs{dwarf.AttrCount: offset}}}
			grid := of(dwarf.TagArrayType, inner)
			grid.Children = []*entry{
				{Tag: dwarf.TagSubrangeType, Attrs: attrs{dwarf.AttrCount: int64(1) << 32}}, {Tag: dwarf.TagSubrangeType, Attrs: attrs{dwarf.AttrCount: offset}},
			}
			bits := field("bits", 0, inner)
			bits.Attrs[dwarf.AttrBitSize], bits.Attrs[dwarf.AttrDataBitOffset] = int64(5), offset
			outer := structOf(16, field("a", offset, inner), field("b", 0, array), field("c", 8, grid), bits)
			f, at := infoOf(t, inner, array, grid, outer)
			for _, e := range []*entry{array, grid, outer} {
				printed(wholeOf(t, f, at[e], nil))
				printed(wholeOf(t, f, at[e], []op.Piece{{Kind: op.InRegister, Register: dwDI, At: offset, Size: size}}))
			}
		}
	}
	// Each struct contains the next one twice: there are 2^30 paths.
	s := structOf(8, field("x", 0, base("char", 8, 1)))
	list := []*entry{s.Children[0].Attrs[dwarf.AttrType].(*entry), s}
	for range 30 {
		s = structOf(8, field("a", 0, s), field("b", 0, s))
		list = append(list, s)
	}
	f, at := infoOf(t, list...)
	if _, err := wholeOf(t, f, at[s], nil); err == nil {
		t.Error("2^30 fields are read")
	}
}

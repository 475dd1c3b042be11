package signature

import (
	"bytes"
	"debug/dwarf"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"endoscope/probes/dwarf/debuginfo"
	"endoscope/probes/dwarf/op"
	"endoscope/probes/elf"
	"endoscope/probes/testenv/debugtree"
)

type (
	entry = debugtree.Entry
	attrs = map[dwarf.Attr]any
)

// infoOf returns the debug information of a unit with these entries.
func infoOf(t testing.TB, entries ...*entry) (f *Info, at map[*entry]dwarf.Offset) {
	t.Helper()
	d, at, err := debugtree.Data(debugtree.Unit(entries...))
	if err != nil {
		t.Fatal(err)
	}
	f, err = open(&elf.DebugInfo{Info: &debuginfo.Info{Data: d}})
	if err != nil {
		t.Fatal(err)
	}
	f.left = maxSpent
	return f, at
}

func base(name string, encoding, size int64) *entry {
	return &entry{Tag: dwarf.TagBaseType, Attrs: attrs{dwarf.AttrName: name, dwarf.AttrEncoding: encoding, dwarf.AttrByteSize: size}}
}

func of(tag dwarf.Tag, t *entry) *entry { return &entry{Tag: tag, Attrs: attrs{dwarf.AttrType: t}} }

// structOf returns a struct of a size in bytes; the name of a member may be
// empty.
func structOf(size int64, members ...*entry) *entry {
	return &entry{Tag: dwarf.TagStructType, Attrs: attrs{dwarf.AttrByteSize: size}, Children: members}
}

func field(name string, offset int64, t *entry) *entry {
	m := of(dwarf.TagMember, t)
	m.Attrs[dwarf.AttrDataMemberLoc] = offset
	if name != "" {
		m.Attrs[dwarf.AttrName] = name
	}
	return m
}

func TestNamesOfTypes(t *testing.T) {
	integer := base("int", 5, 4)
	pointer := of(dwarf.TagPointerType, integer)
	pointers := of(dwarf.TagPointerType, pointer)
	array := of(dwarf.TagArrayType, pointers)
	array.Children = []*entry{{Tag: dwarf.TagSubrangeType, Attrs: attrs{dwarf.AttrCount: int64(3)}}}
	f, at := infoOf(t, integer, pointer, pointers, array)
	got, err := f.typeOf(at[array])
	if err != nil || got.Name != "int **[3]" || got.Size != 24 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestTypesWithoutEnd(t *testing.T) {
	for _, tag := range []dwarf.Tag{dwarf.TagTypedef, dwarf.TagConstType, dwarf.TagPointerType, dwarf.TagReferenceType, dwarf.TagArrayType} {
		self := of(tag, nil)
		self.Attrs[dwarf.AttrType] = self
		f, at := infoOf(t, self)
		if _, err := f.typeOf(at[self]); !errors.Is(err, errEndless) {
			t.Errorf("%v of itself: %v", tag, err)
		}
		// Through another type.
		other := of(dwarf.TagPointerType, self)
		self.Attrs[dwarf.AttrType] = other
		f, at = infoOf(t, self, other)
		if _, err := f.typeOf(at[self]); !errors.Is(err, errEndless) {
			t.Errorf("%v of a pointer to itself: %v", tag, err)
		}
	}
}

func TestEntryValueWithinEntryValue(t *testing.T) {
	got, err := locateAtEntry([]byte{op.EntryValue, 1, op.Reg0 + dwDI}, cfaBase)
	if err != nil || len(got) != 1 || got[0].Kind != op.InMemory || got[0].Register != dwDI {
		t.Errorf("%+v, %v", got, err)
	}
	// More than a stack has room for, five bytes each: the length is padded to four.
	const depth = 5_000_000
	expr := make([]byte, 0, 5*depth+1)
	for left := range depth {
		n := 5*(depth-1-left) + 1
		expr = append(expr, op.EntryValue, byte(n)|0x80, byte(n>>7)|0x80, byte(n>>14)|0x80, byte(n>>21))
	}
	if got, err := locateAtEntry(append(expr, op.Reg0), cfaBase); !errors.Is(err, errNotAtEntry) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestPiecesAreFew(t *testing.T) {
	expr := bytes.Repeat([]byte{op.Reg0, op.PieceOf, 1}, op.MaxPieces)
	if got, err := locateAtEntry(expr, cfaBase); err != nil || len(got) != op.MaxPieces {
		t.Errorf("%d pieces, %v", len(got), err)
	}
	if _, err := locateAtEntry(append(expr, op.Reg0, op.PieceOf, 1), cfaBase); !errors.Is(err, errNotAtEntry) {
		t.Error("one piece more:", err)
	}
}

// The time to pass a type does not depend on its stated size.
func TestSizesOutOfBounds(t *testing.T) {
	for _, size := range []int64{-1, math.MinInt64, 1 << 62, math.MaxInt64} {
		for _, offset := range []int64{0, 8, 1 << 62, math.MaxInt64, -8, math.MinInt64} {
			huge := base("huge", 5, size)
			outer := structOf(16, field("a", offset, huge))
			array := of(dwarf.TagArrayType, huge)
			array.Attrs[dwarf.AttrByteSize] = int64(16)
			array.Children = []*entry{{Tag: dwarf.TagSubrangeType, Attrs: attrs{dwarf.AttrCount: size}}}
			f, at := infoOf(t, huge, outer, array)
			for _, e := range []*entry{huge, outer, array} {
				typ, err := f.typeOf(at[e])
				if err != nil {
					t.Fatal(err)
				}
				c := &convention{f: f, ints: systemVArguments, floats: systemVFloats}
				if got, err := c.pass(typ); len(got) > 2 {
					t.Errorf("size %d at %d: %d pieces, %v", size, offset, len(got), err)
				}
			}
		}
	}
	// The registers of a struct depend on its members, whatever size it states.
	huge := base("huge", 5, 1<<62)
	outer := structOf(16, field("a", 0, huge))
	f, at := infoOf(t, huge, outer)
	typ, err := f.typeOf(at[outer])
	if err != nil {
		t.Fatal(err)
	}
	c := &convention{f: f, ints: systemVArguments, floats: systemVFloats}
	if got, err := c.pass(typ); err != nil || len(got) != 2 || got[0].Register != dwDI || got[1].Register != dwSI {
		t.Errorf("%+v, %v", got, err)
	}
}

// Each struct contains the next one twice: there are 2^60 paths.
func TestStructsInManyWays(t *testing.T) {
	entries := []*entry{structOf(16)}
	for range 60 {
		last := entries[len(entries)-1]
		entries = append(entries, structOf(16, field("", 0, last), field("", 0, last)))
	}
	f, at := infoOf(t, entries...)
	typ, err := f.typeOf(at[entries[len(entries)-1]])
	if err != nil {
		t.Fatal(err)
	}
	for name, walk := range map[string]func() error{
		"member":   func() error { _, err := f.member(typ, "x", maxDepth); return err },
		"System V": func() error { _, err := (&convention{f: f, ints: systemVArguments}).pass(typ); return err },
		"Go":       func() error { _, err := (&convention{f: f, golang: true, ints: goRegisters}).pass(typ); return err },
	} {
		f.left = 1 << 16
		if err := walk(); err == nil || !strings.Contains(err.Error(), "leads too far") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A struct that has itself as an unnamed field.
func TestStructInItself(t *testing.T) {
	self := structOf(8)
	self.Children = []*entry{field("", 0, self)}
	f, at := infoOf(t, self)
	typ, err := f.typeOf(at[self])
	if err != nil {
		t.Fatal(err)
	}
	if m, err := f.member(typ, "x", maxDepth); m != nil || err != nil {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := (&convention{f: f, ints: systemVArguments}).pass(typ); err == nil {
		t.Error("a struct that is within itself was passed")
	}
}

func TestDimensionsAreFew(t *testing.T) {
	array := of(dwarf.TagArrayType, nil)
	integer := base("int", 5, 4)
	array.Attrs[dwarf.AttrType] = integer
	for range maxDepth + 1 {
		array.Children = append(array.Children, &entry{Tag: dwarf.TagSubrangeType, Attrs: attrs{dwarf.AttrCount: int64(1)}})
	}
	f, at := infoOf(t, integer, array)
	if _, err := f.typeOf(at[array]); err == nil || !strings.Contains(err.Error(), "dimensions") {
		t.Error(err)
	}
}

// Many units may share one list of ranges.
func TestRangesAreBounded(t *testing.T) {
	const inList = 1 << 15
	unit := debugtree.Unit()
	unit.Attrs[dwarf.AttrLowpc] = uint64(0)
	unit.Attrs[dwarf.AttrRanges] = int64(0)
	abbrev, info, _ := debugtree.Sections(unit)
	var ranges []byte
	for i := range uint64(inList) {
		ranges = binary.LittleEndian.AppendUint64(ranges, 2*i+1)
		ranges = binary.LittleEndian.AppendUint64(ranges, 2*i+2)
	}
	ranges = append(ranges, make([]byte, 16)...)
	for _, units := range []int{2, maxRanges/inList + 1} {
		d, err := debuginfo.Parse(map[string][]byte{"abbrev": abbrev, "info": bytes.Repeat(info, units), "ranges": ranges})
		if err != nil {
			t.Fatal(err)
		}
		f, err := open(&elf.DebugInfo{Info: d})
		if tooMany := units*inList > maxRanges; tooMany != (err != nil) || !tooMany && len(f.units) != units*inList {
			t.Errorf("%d units: %v", units, err)
		}
	}
}

// A list may be long and yield no range.
func TestRangeElementsAreBounded(t *testing.T) {
	const inList = 1 << 17
	unit := debugtree.Unit()
	unit.Attrs[dwarf.AttrRanges] = int64(0)
	abbrev, info, _ := debugtree.Sections(unit)
	base := append(bytes.Repeat([]byte{0xff}, 8), make([]byte, 8)...)
	ranges := append(bytes.Repeat(base, inList), make([]byte, 16)...)
	for _, units := range []int{2, maxRangeElements/inList + 1} {
		d, err := debuginfo.Parse(map[string][]byte{"abbrev": abbrev, "info": bytes.Repeat(info, units), "ranges": ranges})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := open(&elf.DebugInfo{Info: d}); (units > 2) != (err != nil) {
			t.Errorf("%d units: %v", units, err)
		}
	}
}

// Debug information is indexed once for all users.
func TestOpenedOnce(t *testing.T) {
	d, _, err := debugtree.Data(debugtree.Unit())
	if err != nil {
		t.Fatal(err)
	}
	shared, made := &elf.DebugInfo{Info: &debuginfo.Info{Data: d}}, 0
	for range 3 {
		got, err := shared.Derive(func() (any, error) { made++; return open(shared) })
		if err != nil || got == nil {
			t.Fatal(err)
		}
	}
	if made != 1 {
		t.Errorf("made %d times", made)
	}
}

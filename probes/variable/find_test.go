package variable

import (
	"debug/dwarf"
	"debug/elf"
	"strings"
	"testing"

	"endoscope/probes/dwarf/debuginfo"
	"endoscope/probes/dwarf/op"
	"endoscope/probes/testenv/debugtree"
)

type (
	entry = debugtree.Entry
	attrs = map[dwarf.Attr]any
)

// programOf returns a program with a variable v of a type.
func programOf(t *testing.T, typ *entry, others ...*entry) *program {
	t.Helper()
	v := &entry{Tag: dwarf.TagVariable, Attrs: attrs{dwarf.AttrName: "v", dwarf.AttrType: typ,
		dwarf.AttrLocation: []byte{op.Addr, 0, 0x10, 0, 0, 0, 0, 0, 0}}}
	d, _, err := debugtree.Data(debugtree.Unit(append(others, typ, v)...))
	if err != nil {
		t.Fatal(err)
	}
	return &program{elf: &elf.File{}, debug: &elf.File{}, data: &debuginfo.Info{Data: d}}
}

func of(tag dwarf.Tag, t *entry) *entry { return &entry{Tag: tag, Attrs: attrs{dwarf.AttrType: t}} }

// member adds a field; name "" makes it unnamed.
func member(name string, offset int64, t *entry) *entry {
	m := of(dwarf.TagMember, t)
	m.Attrs[dwarf.AttrDataMemberLoc] = offset
	if name != "" {
		m.Attrs[dwarf.AttrName] = name
	}
	return m
}

func structOf(members ...*entry) *entry {
	return &entry{Tag: dwarf.TagStructType, Attrs: attrs{dwarf.AttrName: "s", dwarf.AttrByteSize: int64(16)}, Children: members}
}

func integer() *entry {
	return &entry{Tag: dwarf.TagBaseType, Attrs: attrs{dwarf.AttrName: "int", dwarf.AttrEncoding: int64(5), dwarf.AttrByteSize: int64(4)}}
}

func TestFieldWithinStructWithoutName(t *testing.T) {
	number := integer()
	inner := structOf(member("a", 0, number), member("b", 4, number))
	got, err := programOf(t, structOf(member("x", 0, number), member("", 8, inner)), inner, number).find("v.b")
	if err != nil || got.addr != 0x1000+12 || got.form.size != 4 {
		t.Errorf("%+v, %v", got, err)
	}
}

// Types that refer to themselves yield an error, not a stack overflow.
func TestTypesWithoutEnd(t *testing.T) {
	for _, tag := range []dwarf.Tag{dwarf.TagTypedef, dwarf.TagConstType, dwarf.TagArrayType} {
		self := of(tag, nil)
		self.Attrs[dwarf.AttrType] = self
		for _, name := range []string{"v", "v.x", "v[0]"} {
			if _, err := programOf(t, self).find(name); err == nil || !strings.Contains(err.Error(), "no end") {
				t.Errorf("%s, %v of itself: %v", name, tag, err)
			}
		}
	}
	endless := of(dwarf.TagPointerType, nil)
	endless.Attrs[dwarf.AttrType] = endless
	if got, err := programOf(t, endless).find("v[0]"); err != nil || len(got.follow) != 1 || got.form.kind != pointer {
		t.Errorf("an element of a pointer to itself: %v", err)
	}
	self := structOf()
	self.Children = []*entry{member("", 0, self)}
	if _, err := programOf(t, self).find("v.x"); err == nil || !strings.Contains(err.Error(), "has no field x") {
		t.Errorf("a field of a struct that is within itself: %v", err)
	}
}

// Each struct contains the next one twice: there are 2^60 paths.
func TestStructsInManyWays(t *testing.T) {
	all := []*entry{structOf()}
	for range 60 {
		last := all[len(all)-1]
		all = append(all, structOf(member("", 0, last), member("", 0, last)))
	}
	n := len(all) - 1
	if _, err := programOf(t, all[n], all[:n]...).find("v.x"); err == nil || !strings.Contains(err.Error(), "has no field x") {
		t.Error(err)
	}
}

func TestPlainEnds(t *testing.T) {
	self := &dwarf.TypedefType{}
	self.Type = self
	if got := plain(self); got != dwarf.Type(self) {
		t.Errorf("%T", got)
	}
}

package debuginfo

import (
	"bytes"
	"debug/dwarf"
	"encoding/binary"
	"errors"
	"runtime/debug"
	"strings"
	"testing"

	"endoscope/probes/testenv/debugtree"
)

type attrs = map[dwarf.Attr]any

// chain returns n types, each referring to the next, and the last to end (nil:
// an int).
func chain(tag dwarf.Tag, n int, end *debugtree.Entry) []*debugtree.Entry {
	if end == nil {
		end = &debugtree.Entry{Tag: dwarf.TagBaseType, Attrs: attrs{dwarf.AttrName: "int", dwarf.AttrEncoding: int64(5), dwarf.AttrByteSize: int64(4)}}
	}
	out := []*debugtree.Entry{end}
	for range n {
		out = append(out, &debugtree.Entry{Tag: tag, Attrs: attrs{dwarf.AttrType: out[len(out)-1]}})
	}
	return out
}

func readTypeOf(t *testing.T, e *debugtree.Entry, all ...*debugtree.Entry) (dwarf.Type, error) {
	t.Helper()
	d, at, err := debugtree.Data(debugtree.Unit(all...))
	if err != nil {
		t.Fatal(err)
	}
	return ReadType(d, at[e])
}

func TestReadType(t *testing.T) {
	node := &debugtree.Entry{Tag: dwarf.TagStructType, Attrs: attrs{dwarf.AttrName: "node", dwarf.AttrByteSize: int64(8)}}
	next := &debugtree.Entry{Tag: dwarf.TagPointerType, Attrs: attrs{dwarf.AttrType: node}}
	node.Children = []*debugtree.Entry{{Tag: dwarf.TagMember, Attrs: attrs{dwarf.AttrName: "next", dwarf.AttrType: next, dwarf.AttrDataMemberLoc: int64(0)}}}
	got, err := readTypeOf(t, node, node, next)
	if err != nil || !strings.Contains(got.(*dwarf.StructType).Defn(), "next *struct node@0") {
		t.Errorf("%v, %v; want the struct that points to itself", got, err)
	}
	for _, n := range []int{1, maxTypeChain} {
		all := chain(dwarf.TagTypedef, n, nil)
		if got, err := readTypeOf(t, all[n], all...); err != nil || got.Size() != 4 {
			t.Errorf("%d typedefs: %v, %v", n, got, err)
		}
	}
	all := chain(dwarf.TagPointerType, maxTypeDepth-2, nil)
	if _, err := readTypeOf(t, all[len(all)-1], all...); err != nil {
		t.Error("pointers to pointers:", err)
	}
}

// All of these would exhaust the stack in package dwarf.
func TestReadEndlessType(t *testing.T) {
	for _, tag := range []dwarf.Tag{dwarf.TagTypedef, dwarf.TagConstType, dwarf.TagArrayType} {
		e := &debugtree.Entry{Tag: tag, Attrs: attrs{}}
		e.Attrs[dwarf.AttrType] = e
		// The cycle need not include the requested type.
		pointer := &debugtree.Entry{Tag: dwarf.TagPointerType, Attrs: attrs{dwarf.AttrType: e}}
		for _, of := range []*debugtree.Entry{e, pointer} {
			if _, err := readTypeOf(t, of, e, pointer); !errors.Is(err, errEndless) {
				t.Errorf("%v of itself, from a %v: %v", tag, of.Tag, err)
			}
		}
	}
	all := chain(dwarf.TagPointerType, maxTypeDepth+1, nil)
	if _, err := readTypeOf(t, all[len(all)-1], all...); !errors.Is(err, errManyTypes) {
		t.Error("more pointers to pointers than the stack has room for:", err)
	}
}

// nested returns .debug_info of a unit with entries nested to a depth, with an
// abbreviation that has children and no attributes.
func nested(t testing.TB, depth int) *dwarf.Data {
	info := []byte{0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8}
	info = append(info, bytes.Repeat([]byte{1}, depth)...)
	info = append(info, make([]byte, depth)...)
	binary.LittleEndian.PutUint32(info, uint32(len(info)-4))
	d, err := dwarf.New([]byte{1, byte(dwarf.TagCompileUnit), 1, 0, 0, 0}, nil, nil, info, nil, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// This depth would need more stack than a goroutine may have here.
func TestSkipDeepChildren(t *testing.T) {
	const depth = 1_000_000
	defer debug.SetMaxStack(debug.SetMaxStack(16 << 20))
	r := nested(t, depth).Reader()
	e, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	if read := SkipChildren(r, e); read < depth-1 {
		t.Errorf("read %d entries of %d", read, depth)
	}
	if e, err := r.Next(); e != nil || err != nil {
		t.Errorf("behind all of them there is %v, %v", e, err)
	}
}

func TestSkipChildren(t *testing.T) {
	last := &debugtree.Entry{Tag: dwarf.TagVariable}
	child := &debugtree.Entry{Tag: dwarf.TagMember}
	first := &debugtree.Entry{Tag: dwarf.TagStructType, Attrs: attrs{}, Children: []*debugtree.Entry{child, {Tag: dwarf.TagUnionType, Children: []*debugtree.Entry{child}}}}
	root := debugtree.Unit(first, last)
	for name, sibling := range map[string]*debugtree.Entry{"none": nil, "next": last, "that lies behind": root, "itself": first} {
		if delete(first.Attrs, dwarf.AttrSibling); sibling != nil {
			first.Attrs[dwarf.AttrSibling] = sibling
		}
		d, at, err := debugtree.Data(root)
		if err != nil {
			t.Fatal(err)
		}
		r := d.Reader()
		r.Seek(at[first])
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		SkipChildren(r, e)
		if e, err := r.Next(); err != nil || e == nil || e.Offset != at[last] {
			t.Errorf("sibling %s: it went to %v, %v", name, e, err)
		}
	}
}

// Package debugtree builds debug information from trees written in tests,
// including some that no compiler emits. It is for tests only.
package debugtree

import (
	"debug/dwarf"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"endoscope/probes/dwarf/leb128"
)

// Entry is one entry of the debug information. Attributes are a string, an
// int64, a uint64 (an address), a bool, a []byte (an expression) or an *Entry
// of the same tree (a reference).
type Entry struct {
	Tag      dwarf.Tag
	Attrs    map[dwarf.Attr]any
	Children []*Entry
}

// Forms (DWARF 4, 7.5.4).
const (
	formAddr    = 0x01
	formFlag    = 0x0c
	formSdata   = 0x0d
	formString  = 0x08
	formRef4    = 0x13
	formExprloc = 0x18
)

// Sections returns .debug_abbrev and .debug_info of one unit, whose entry is
// root; at has the offsets of all entries in the latter.
func Sections(root *Entry) (abbrev, info []byte, at map[*Entry]dwarf.Offset) {
	at = map[*Entry]dwarf.Offset{}
	refs := map[int]*Entry{} // by position in info
	info = []byte{0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8}
	code := uint64(0)
	var write func(e *Entry)
	write = func(e *Entry) {
		code++
		at[e] = dwarf.Offset(len(info))
		info = leb128.AppendUleb(info, code)
		abbrev = leb128.AppendUleb(abbrev, code)
		abbrev = leb128.AppendUleb(abbrev, uint64(e.Tag))
		abbrev = append(abbrev, byte(min(len(e.Children), 1)))
		for _, a := range slices.Sorted(maps.Keys(e.Attrs)) {
			form := byte(0)
			switch v := e.Attrs[a].(type) {
			case string:
				form, info = formString, append(append(info, v...), 0)
			case int64:
				form, info = formSdata, leb128.AppendSleb(info, v)
			case uint64:
				form, info = formAddr, binary.LittleEndian.AppendUint64(info, v)
			case bool:
				form, info = formFlag, append(info, 1)
			case []byte:
				form, info = formExprloc, append(leb128.AppendUleb(info, uint64(len(v))), v...)
			case *Entry:
				refs[len(info)] = v
				form, info = formRef4, append(info, 0, 0, 0, 0)
			default:
				panic(fmt.Sprintf("attribute %v has a %T", a, v))
			}
			abbrev = append(leb128.AppendUleb(abbrev, uint64(a)), form)
		}
		abbrev = append(abbrev, 0, 0)
		for _, c := range e.Children {
			write(c)
		}
		if len(e.Children) > 0 {
			info = append(info, 0)
		}
	}
	write(root)
	for place, e := range refs {
		binary.LittleEndian.PutUint32(info[place:], uint32(at[e]))
	}
	binary.LittleEndian.PutUint32(info, uint32(len(info)-4))
	return append(abbrev, 0), info, at
}

// Unit returns a tree whose unit entry has the children.
func Unit(children ...*Entry) *Entry {
	return &Entry{Tag: dwarf.TagCompileUnit, Attrs: map[dwarf.Attr]any{dwarf.AttrName: "unit"}, Children: children}
}

// Data returns the debug information of a tree.
func Data(root *Entry) (d *dwarf.Data, at map[*Entry]dwarf.Offset, err error) {
	abbrev, info, at := Sections(root)
	d, err = dwarf.New(abbrev, nil, nil, info, nil, nil, nil, nil)
	return d, at, err
}

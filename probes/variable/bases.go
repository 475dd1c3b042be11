package variable

import (
	"debug/dwarf"
	"fmt"

	"endoscope/probes/dwarf/debuginfo"
)

// base is a base class. Package dwarf skips these entries (DW_TAG_inheritance;
// DWARF 5, 5.7.3) when it reads a class.
type base struct {
	class   *dwarf.StructType
	offset  int64 // in bytes, within an object of the derived class
	virtual bool  // the offset differs by object; offset is unset
}

// maxBases limits the classes searched for a field.
const maxBases = 256

// inherited finds a field in the base classes of a class, the nearest first.
func (p *program) inherited(class *dwarf.StructType, name string) (offset int64, field *dwarf.StructField, ok bool, err error) {
	all := []base{{class: class}}
	left := maxVisited
	for i := 0; i < len(all) && i < maxBases; i++ {
		b := all[i]
		if offset, field, ok := fieldOf(b.class, name, &left); ok {
			if b.virtual {
				return 0, nil, false, fmt.Errorf("%s is a field of %s, a virtual base class, which lies elsewhere in each class of objects", name, b.class.StructName)
			}
			return b.offset + offset, field, true, nil
		}
		for _, of := range p.bases(b.class) {
			of.offset, of.virtual = of.offset+b.offset, of.virtual || b.virtual
			all = append(all, of)
		}
	}
	return 0, nil, false, nil
}

// bases reads the base classes of a class. Package dwarf does not say which
// entry a class was read from, so bases takes the one of its name that is read
// as the same type.
func (p *program) bases(class *dwarf.StructType) []base {
	r := p.data.Reader()
	for {
		e, err := r.Next()
		if err != nil || e == nil {
			return nil
		}
		switch e.Tag {
		case dwarf.TagCompileUnit, dwarf.TagPartialUnit, dwarf.TagTypeUnit, dwarf.TagNamespace:
			continue
		case dwarf.TagClassType, dwarf.TagStructType:
			if !e.Children {
				continue
			}
			if own, _ := e.Val(dwarf.AttrName).(string); own == class.StructName {
				if t, err := debuginfo.ReadType(p.data.Data, e.Offset); err == nil && t == dwarf.Type(class) {
					return p.derives(r)
				}
			}
			continue // to nested classes
		}
		debuginfo.SkipChildren(r, e)
	}
}

// derives reads the bases among the children of a class; the reader is at the
// class.
func (p *program) derives(r *dwarf.Reader) (all []base) {
	for {
		e, err := r.Next()
		if err != nil || e == nil || e.Tag == 0 {
			return all
		}
		if at, ok := e.Val(dwarf.AttrType).(dwarf.Offset); ok && e.Tag == dwarf.TagInheritance {
			t, err := debuginfo.ReadType(p.data.Data, at)
			if class, isClass := plain(t).(*dwarf.StructType); err == nil && isClass {
				offset, fixed := e.Val(dwarf.AttrDataMemberLoc).(int64)
				all = append(all, base{class: class, offset: offset, virtual: !fixed})
			}
		}
		debuginfo.SkipChildren(r, e)
	}
}

package signature

import (
	"debug/dwarf"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kind is the kind of a type's values, independent of the type's name.
type Kind uint8

// Kinds of types.
const (
	Void Kind = iota
	Int
	Uint
	Bool
	Enum
	Float
	Pointer
	Reference
	Struct // also classes
	Union
	Array
	Code // a function
	Other
)

// Type is a type of the program's source.
type Type struct {
	Name string // name in the source
	bare string // without const
	Kind Kind
	Size int64
	// Char: a C character, or a byte of a text.
	Char bool
	// goKind is the kind of a Go type (reflect.Kind), independent of its name.
	goKind int64

	elem  dwarf.Offset // target of a pointer, element of an array; 0: void
	to    *Type        // target of a pointer that has no entry; nil: elem
	at    dwarf.Offset // entry that has the members
	count int64        // number of elements of an array
	// dimensions are the lengths of an array in each dimension.
	dimensions []int64
	indirect   bool // a class that is passed by pointer
}

// member is a field of a struct.
type member struct {
	name   string
	offset int64
	t      *Type
	// bit and bits locate a bit field, relative to offset; bits 0: not a bit
	// field.
	bit, bits int64
}

// passByReference is DW_CC_pass_by_reference.
const passByReference = 4

// Go's extensions of DWARF (cmd/internal/dwarf, DW_AT_go_kind).
const (
	attrGoKind = dwarf.Attr(0x2900)
	goString   = 24
)

var errEndless = errors.New("has damaged debug information: a type that has no end")

// elementOf returns the target of a pointer.
func (f *Info) elementOf(t *Type) (*Type, error) {
	if t.to != nil {
		return t.to, nil
	}
	return f.typeOf(t.elem)
}

// typeOf reads the type at an offset; 0 is void.
func (f *Info) typeOf(at dwarf.Offset) (*Type, error) { return f.typeWithin(at, maxDepth) }

// typeWithin is typeOf, limited to depth references to other types.
func (f *Info) typeWithin(at dwarf.Offset, depth int) (*Type, error) {
	t := &Type{Name: "void"}
	if at == 0 {
		return t, nil
	}
	name := "" // the name given by typedefs
	prefix := ""
	for ; depth > 0; depth-- {
		e, err := f.entry(at)
		if err != nil {
			return nil, err
		}
		own, _ := e.Val(dwarf.AttrName).(string)
		next, hasNext := e.Val(dwarf.AttrType).(dwarf.Offset)
		switch e.Tag {
		case dwarf.TagTypedef:
			if name == "" {
				name = own
			}
		case dwarf.TagConstType:
			if name == "" {
				prefix += "const "
			}
		case dwarf.TagVolatileType, dwarf.TagRestrictType, dwarf.TagAtomicType:
		default:
			if err := f.plain(t, e, own, depth-1); err != nil {
				return nil, err
			}
			if name != "" {
				t.Name = name
			}
			t.bare, t.Name = t.Name, prefix+t.Name
			return t, nil
		}
		if !hasNext {
			t.Name = prefix + name
			if t.Name == prefix {
				t.Name += "void"
			}
			return t, nil
		}
		at = next
	}
	return nil, errEndless
}

// plain reads a type that is no typedef or qualifier.
func (f *Info) plain(t *Type, e *dwarf.Entry, name string, depth int) error {
	t.Size, _ = e.Val(dwarf.AttrByteSize).(int64)
	t.Name, t.at = name, e.Offset
	t.elem, _ = e.Val(dwarf.AttrType).(dwarf.Offset)
	t.goKind, _ = e.Val(attrGoKind).(int64)
	switch e.Tag {
	case dwarf.TagBaseType:
		encoding, _ := e.Val(dwarf.AttrEncoding).(int64)
		switch encoding {
		case 0x02:
			t.Kind = Bool
		case 0x04:
			t.Kind = Float
		case 0x05, 0x0d: // signed, signed_fixed
			t.Kind = Int
		case 0x06:
			t.Kind, t.Char = Int, name == "char"
		case 0x07, 0x10: // unsigned, UTF
			t.Kind = Uint
		case 0x08:
			t.Kind, t.Char = Uint, name == "char"
		default:
			t.Kind = Other
		}
	case dwarf.TagPointerType, dwarf.TagReferenceType, dwarf.TagRvalueReferenceType, dwarf.TagPtrToMemberType:
		t.Kind = Pointer
		if e.Tag == dwarf.TagReferenceType || e.Tag == dwarf.TagRvalueReferenceType {
			t.Kind = Reference
		}
		if t.Size == 0 {
			t.Size = 8
		}
		if e.Tag == dwarf.TagPtrToMemberType {
			t.Kind = Other
		}
		if name == "" {
			elem, err := f.nameOf(t.elem, depth)
			if err != nil {
				return err
			}
			t.Name = elem + map[dwarf.Tag]string{dwarf.TagReferenceType: " &", dwarf.TagRvalueReferenceType: " &&"}[e.Tag]
			if e.Tag == dwarf.TagPointerType {
				t.Name = elem + " *"
				if strings.HasSuffix(elem, "*") {
					t.Name = elem + "*"
				}
			}
		}
	case dwarf.TagEnumerationType:
		t.Kind, t.Name = Enum, spelled("enum", name)
	case dwarf.TagStructType, dwarf.TagClassType, dwarf.TagUnionType:
		t.Kind = Struct
		if e.Tag == dwarf.TagUnionType {
			t.Kind = Union
		}
		if name == "" {
			t.Name = "struct {...}"
		}
		cc, _ := e.Val(dwarf.AttrCalling).(int64)
		t.indirect = cc == passByReference
	case dwarf.TagArrayType:
		t.Kind = Array
		return f.array(t, e, name, depth)
	case dwarf.TagSubroutineType:
		t.Kind, t.Name = Code, spelled("function", name)
	case dwarf.TagUnspecifiedType:
		t.Kind = Other
	default:
		t.Kind = Other
		if name == "" {
			t.Name = "a type that is not known here"
		}
	}
	return nil
}

func spelled(kind, name string) string {
	if name == "" {
		return kind + " {...}"
	}
	return name
}

// array reads the dimensions of an array.
func (f *Info) array(t *Type, e *dwarf.Entry, name string, depth int) error {
	cs, err := f.children(e)
	if err != nil {
		return err
	}
	t.count = 1
	bounds := ""
	dimensions := 0
	for _, c := range cs {
		if c.Tag != dwarf.TagSubrangeType {
			continue
		}
		if dimensions++; dimensions > maxDepth {
			return fmt.Errorf("has an array of more than %d dimensions", maxDepth)
		}
		n, ok := c.Val(dwarf.AttrCount).(int64)
		if !ok {
			last, ok := c.Val(dwarf.AttrUpperBound).(int64)
			if n = last + 1; !ok {
				n = 0
			}
		}
		t.count *= n
		t.dimensions = append(t.dimensions, n)
		bounds += fmt.Sprintf("[%d]", n)
	}
	elem, err := f.typeWithin(t.elem, depth)
	if err != nil {
		return err
	}
	if t.Size == 0 {
		t.Size = t.count * elem.Size
	}
	if name == "" {
		t.Name = elem.Name + bounds
	}
	return nil
}

// nameOf returns the name of the type at an offset. It follows no pointers to
// structs.
func (f *Info) nameOf(at dwarf.Offset, depth int) (string, error) {
	if at == 0 {
		return "void", nil
	}
	e, err := f.entry(at)
	if err != nil {
		return "", err
	}
	if e.Tag == dwarf.TagStructType || e.Tag == dwarf.TagUnionType || e.Tag == dwarf.TagClassType {
		name, _ := e.Val(dwarf.AttrName).(string)
		return spelled("struct", name), nil
	}
	t, err := f.typeWithin(at, depth)
	if err != nil {
		return "", err
	}
	return t.Name, nil
}

// members returns the members of a struct. If it is only declared, its
// definition is looked up in its unit.
func (f *Info) members(t *Type) ([]member, error) {
	e, err := f.entry(t.at)
	if err != nil {
		return nil, err
	}
	if decl, _ := e.Val(dwarf.AttrDeclaration).(bool); decl {
		return nil, fmt.Errorf("%s is only declared where this was compiled: its fields are not known", t.Name)
	}
	cs, err := f.children(e)
	if err != nil {
		return nil, err
	}
	var out []member
	for _, c := range cs {
		if c.Tag != dwarf.TagMember && c.Tag != dwarf.TagInheritance {
			continue
		}
		m := member{}
		m.name, _ = c.Val(dwarf.AttrName).(string)
		at, ok := c.Val(dwarf.AttrType).(dwarf.Offset)
		if !ok || c.Val(dwarf.AttrExternal) != nil {
			continue
		}
		if loc := c.Val(dwarf.AttrDataMemberLoc); loc != nil {
			if m.offset, ok = loc.(int64); !ok {
				continue // a virtual base
			}
		}
		if m.t, err = f.typeOf(at); err != nil {
			return nil, err
		}
		if m.bits, _ = c.Val(dwarf.AttrBitSize).(int64); m.bits > 0 {
			bit, ok := c.Val(dwarf.AttrDataBitOffset).(int64)
			if !ok { // before DWARF 4: counted from the highest bit of the storage
				high, _ := c.Val(dwarf.AttrBitOffset).(int64)
				size := m.t.Size
				if n, ok := c.Val(dwarf.AttrByteSize).(int64); ok {
					size = n
				}
				bit = m.offset*8 + size*8 - high - m.bits
			}
			m.offset, m.bit = bit/8, bit%8
		}
		out = append(out, m)
		if len(out) > maxMembers {
			return nil, fmt.Errorf("%s has more than %d fields", t.Name, maxMembers)
		}
	}
	return out, nil
}

// hasVariants reports whether a struct has fields that depend on its content: a Rust enum.
func (f *Info) hasVariants(t *Type) bool {
	e, err := f.entry(t.at)
	if err != nil {
		return false
	}
	cs, err := f.children(e)
	return err == nil && slices.ContainsFunc(cs, func(c *dwarf.Entry) bool { return c.Tag == dwarf.TagVariantPart })
}

const maxMembers = 10_000

// member finds a field by name: its own, of a base class, or of an unnamed
// struct inside.
func (f *Info) member(t *Type, name string, depth int) (*member, error) {
	if depth == 0 {
		return nil, nil
	}
	ms, err := f.members(t)
	if err != nil {
		return nil, err
	}
	for i := range ms {
		if ms[i].name == name {
			return &ms[i], nil
		}
	}
	for _, m := range ms {
		if m.name != "" || m.t.Kind != Struct && m.t.Kind != Union {
			continue
		}
		inner, err := f.member(m.t, name, depth-1)
		if err != nil {
			return nil, err
		}
		if inner != nil {
			inner.offset += m.offset
			return inner, nil
		}
	}
	return nil, nil
}

// enumerators returns the names of an enum's values.
func (f *Info) enumerators(t *Type) (map[int64]string, bool, error) {
	e, err := f.entry(t.at)
	if err != nil {
		return nil, false, err
	}
	cs, err := f.children(e)
	if err != nil {
		return nil, false, err
	}
	out, signed := map[int64]string{}, false
	for _, c := range cs {
		n, ok := c.Val(dwarf.AttrConstValue).(int64)
		name, _ := c.Val(dwarf.AttrName).(string)
		if c.Tag != dwarf.TagEnumerator || !ok {
			continue
		}
		signed = signed || n < 0
		if _, have := out[n]; !have {
			out[n] = name
		}
	}
	if t.elem != 0 {
		under, err := f.typeOf(t.elem)
		if err != nil {
			return nil, false, err
		}
		signed = under.Kind == Int
	}
	return out, signed, nil
}

package variable

import (
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ianlancetaylor/demangle"

	"endoscope/probes/dwarf/debuginfo"
	"endoscope/probes/dwarf/leb128"
	"endoscope/probes/dwarf/op"
	files "endoscope/probes/elf"
)

// place is where a variable is and how it is read.
type place struct {
	addr uint64 // address in the file
	// pointers to follow: the 8 bytes at addr plus an offset are the next
	// address
	follow []step
	form   form
}

// program is a file in which variables are looked up.
type program struct {
	elf   *elf.File
	debug *elf.File // file with the debug information: elf, or a separate one
	// data is the debug information in which entries are read: that of the file, or of
	// a split unit; nil: it has none.
	data  *debuginfo.Info
	own   *debuginfo.Info   // that of the file, once it has been searched
	units *files.SplitUnits // reads split units; nil: they are not read
	split error             // why a split unit was not read
}

// openProgram reads the debug information of a file. debug is its separate
// debug file, shared the supplementary file that several debug files refer to;
// either may be nil.
func openProgram(file, debug, shared *elf.File) *program {
	p := &program{elf: file, debug: file}
	if debug != nil {
		p.debug = debug
	}
	if data, err := debuginfo.ReadShared(p.debug, shared); err == nil {
		p.data = data // otherwise damaged or too large: treated as missing
	}
	return p
}

// errNone is returned for a name that no variable has.
var errNone = errors.New("no such variable")

// find returns the variable with a name, or the part of one reached by fields
// (.name), pointers (->name, or .name as well) and indexes ([n]). Names of C++
// and Rust include namespaces and classes, names of static variables of
// functions include the function, each followed by ::; names of Go include the
// package.
func (p *program) find(name string) (pl place, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the debug information is damaged: %v", r)
		}
	}()
	for head := name; ; {
		addr, t, err := p.whole(head)
		switch {
		case err == nil && t != nil:
			return p.part(addr, t, name, len(head))
		case err == nil && head == name:
			return p.symbol(name)
		case err == nil && p.split != nil:
			return pl, fmt.Errorf("the program %w, which is needed for the fields of %s", p.split, head)
		case err == nil:
			return pl, fmt.Errorf("the program has no debug information (-g), which is needed for the fields of %s", head)
		case !errors.Is(err, errNone):
			return pl, err
		}
		cut := strings.LastIndexAny(head, ".[>")
		if cut <= 0 {
			return pl, errNone
		}
		if head[cut] == '>' && head[cut-1] != '-' {
			return pl, errNone // a C++ name
		}
		head = strings.TrimSuffix(head[:cut], "-")
	}
}

// whole finds a variable; the type is nil if only its symbol is known.
func (p *program) whole(name string) (addr uint64, t dwarf.Type, err error) {
	if p.data != nil {
		addr, t, err := p.described(name)
		if !errors.Is(err, errNone) {
			return addr, t, err
		}
	}
	if _, err := p.symbol(name); errors.Is(err, errNone) {
		return 0, nil, err
	}
	return 0, nil, nil
}

// symbol finds a variable in the symbol table, which has no types: it is read
// as an unsigned integer. A global variable hides static ones of its name, of
// which there may be one.
func (p *program) symbol(name string) (pl place, err error) {
	err = errNone
	var found, several bool
	for _, read := range []func() ([]elf.Symbol, error){p.debug.Symbols, p.elf.DynamicSymbols} {
		all, _ := read() // none
		for _, s := range all {
			if elf.ST_TYPE(s.Info) != elf.STT_OBJECT || s.Section == elf.SHN_UNDEF || s.Name != name && demangle.Filter(s.Name) != name {
				continue
			}
			f, wrong := whole(unsigned, int(s.Size), nil)
			if wrong != nil {
				err = fmt.Errorf("it has %d bytes, and without debug information (-g) only 1, 2, 4 and 8 are read", s.Size)
				continue
			}
			this := place{addr: s.Value, form: f}
			if elf.ST_BIND(s.Info) != elf.STB_LOCAL {
				return this, nil
			}
			several = several || found && pl.addr != this.addr
			pl, found = this, true
		}
	}
	switch {
	case several:
		return pl, errors.New("several files have a static variable of that name, which cannot be distinguished without debug information (-g)")
	case found:
		return pl, nil
	}
	return pl, err
}

// isNamed reports whether a variable has a name: its own with its scope, or its
// demangled linkage name.
func isNamed(e *dwarf.Entry, scope []string, own, name string) bool {
	if linkage, ok := e.Val(dwarf.AttrLinkageName).(string); ok {
		if linkage == name || strings.HasPrefix(linkage, "_") && demangle.Filter(linkage) == name {
			return true
		}
	}
	if own == "" || !strings.HasSuffix(name, own) {
		return false
	}
	full := append(slices.DeleteFunc(slices.Clone(scope), func(s string) bool { return s == "" }), own)
	return strings.Join(full, "::") == name
}

// specification returns the declaration that a definition refers to.
func (p *program) specification(e *dwarf.Entry) (*dwarf.Entry, bool) {
	at, ok := e.Val(dwarf.AttrSpecification).(dwarf.Offset)
	if !ok {
		if at, ok = e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset); !ok {
			return nil, false
		}
	}
	r := p.data.Reader()
	r.Seek(at)
	declared, err := r.Next()
	return declared, err == nil && declared != nil
}

func (p *program) typeOf(e *dwarf.Entry) (dwarf.Type, error) {
	untold := errors.New("its type is unknown")
	at, ok := e.Val(dwarf.AttrType).(dwarf.Offset)
	if !ok {
		declared, found := p.specification(e)
		if !found {
			return nil, untold
		}
		if at, ok = declared.Val(dwarf.AttrType).(dwarf.Offset); !ok {
			return nil, untold
		}
	}
	t, err := debuginfo.ReadType(p.data.Data, at)
	if err != nil {
		return nil, fmt.Errorf("its type is not known: the program %w", err)
	}
	return t, nil
}

// address returns the address of a variable that has a fixed one; otherwise the
// error says where it is.
func (p *program) address(e *dwarf.Entry, base int64) (addr uint64, known bool, err error) {
	location, ok := e.Val(dwarf.AttrLocation).([]byte)
	if !ok {
		if e.Val(dwarf.AttrConstValue) != nil {
			return 0, false, errors.New("the compiler has made it a constant")
		}
		return 0, false, nil // a declaration, or a variable that was optimised out
	}
	r := leb128.NewReader(location)
	o, _ := op.Next(&r)
	whole := r.Len() == 0 && !r.Failed()
	switch {
	case o.Code == op.Addr && whole:
		return uint64(o.Value), true, nil
	case (o.Code == op.Addrx || o.Code == op.GNUAddrIndex) && whole && base >= 0:
		if addr := p.data.Address(base, uint64(o.Value)); addr != 0 {
			return addr, true, nil
		}
	case len(location) > 5 && (location[0] == op.Const4u || location[0] == op.Const8u), len(location) > 2 && (location[0] == op.Constx || location[0] == op.GNUConstIndex):
		return 0, false, errors.New("each thread has one of its own (thread-local)")
	}
	return 0, false, errors.New("it has no address of its own: only globals and static variables are observed")
}

// maxFollow limits the pointers on the path to a value.
const maxFollow = 8

// part returns the part of a variable reached by fields, indexes and pointers;
// name[from:] is the path.
func (p *program) part(addr uint64, t dwarf.Type, name string, from int) (place, error) {
	pl := place{addr: addr}
	last := &pl.addr // the one that offsets are added to
	follow := func(path string) (*step, error) {
		if len(pl.follow) == maxFollow {
			return nil, errors.New("it is behind too many pointers")
		}
		pl.follow = append(pl.follow, step{pointer: strings.TrimSuffix(name, path)})
		return &pl.follow[len(pl.follow)-1], nil
	}
	for path := name[from:]; path != ""; {
		t = plain(t)
		index, rest, indexed := cutIndex(path)
		if pointer, elem, ok := pointed(t); ok && (indexed || pointer) {
			next, err := follow(path)
			if err != nil {
				return place{}, err
			}
			last, t = &next.offset, plain(elem)
			if indexed {
				if t.Size() <= 0 {
					return place{}, fmt.Errorf("%s leads to nothing that has elements", strings.TrimSuffix(name, path))
				}
				*last, path = uint64(index*t.Size()), rest
				if !pointer {
					next.length = uint64(index) + 1
				}
				continue
			}
		}
		if indexed {
			array, isArray := t.(*dwarf.ArrayType)
			if !isArray {
				return place{}, fmt.Errorf("%s is no array", spelled(t))
			}
			if index >= array.Count && array.Count > 0 || index >= array.Count && len(pl.follow) == 0 {
				return place{}, fmt.Errorf("the array has %d elements", max(array.Count, 0))
			}
			*last += uint64(index * array.Type.Size())
			t, path = array.Type, rest
			continue
		}
		own, after := strings.TrimPrefix(strings.TrimPrefix(path, "."), "->"), ""
		if end := strings.IndexAny(own, ".[-"); end >= 0 {
			own, after = own[:end], own[end:]
		}
		record, isStruct := t.(*dwarf.StructType)
		if !isStruct {
			return place{}, fmt.Errorf("%s has no fields", spelled(t))
		}
		left := maxVisited
		offset, field, ok := fieldOf(record, own, &left)
		if !ok {
			var err error
			if offset, field, ok, err = p.inherited(record, own); err != nil {
				return place{}, err
			}
		}
		if !ok {
			return place{}, fmt.Errorf("%s has no field %s%s", record.StructName, own, fieldNames(record))
		}
		if field.BitSize != 0 {
			return place{}, fmt.Errorf("%s is a bit field, and only whole bytes are observed", own)
		}
		*last += uint64(offset)
		t, path = field.Type, after
	}
	var err error
	pl.form, err = formOf(t)
	return pl, err
}

// pointed returns the element type of a pointer or a Go slice.
func pointed(t dwarf.Type) (isPointer bool, elem dwarf.Type, ok bool) {
	switch t := t.(type) {
	case *dwarf.PtrType:
		return true, t.Type, true
	case *dwarf.StructType:
		if len(t.Field) == 3 && t.Field[0].Name == "array" && t.Field[1].Name == "len" && t.Field[2].Name == "cap" {
			if p, isPointer := plain(t.Field[0].Type).(*dwarf.PtrType); isPointer && t.ByteSize == sliceSize {
				return false, p.Type, true
			}
		}
	}
	return false, nil, false
}

// maxChain limits the typedefs and qualifiers followed until a type with a form
// of its own.
const maxChain = 64

// plain strips typedefs and qualifiers from a type.
func plain(t dwarf.Type) dwarf.Type {
	for range maxChain {
		switch named := t.(type) {
		case *dwarf.TypedefType:
			t = named.Type
		case *dwarf.QualType:
			t = named.Type
		default:
			return t
		}
	}
	return t
}

// spelled names a type. Type.String of package dwarf does not terminate on a
// pointer to itself.
func spelled(t dwarf.Type) string {
	stars := ""
	for range maxChain {
		p, ok := t.(*dwarf.PtrType)
		if !ok {
			break
		}
		stars, t = stars+"*", p.Type
	}
	switch t := t.(type) {
	case *dwarf.StructType:
		return stars + t.Kind + " " + t.StructName
	case *dwarf.ArrayType:
		return stars + "an array"
	case *dwarf.FuncType:
		return stars + "func"
	case *dwarf.PtrType:
		return stars
	case *dwarf.TypedefType, *dwarf.QualType:
		return stars + t.Common().Name
	case *dwarf.UnsupportedType:
		if t.Tag == dwarf.TagReferenceType || t.Tag == dwarf.TagRvalueReferenceType {
			return stars + "a reference: ask for what it refers to"
		}
	}
	return stars + t.String()
}

// maxVisited limits the fields visited in one search: unnamed structs may nest
// in exponentially many ways.
const maxVisited = 1 << 16

// cutIndex cuts a leading [n] off a path.
func cutIndex(path string) (index int64, rest string, ok bool) {
	inner, ok := strings.CutPrefix(path, "[")
	if !ok {
		return 0, "", false
	}
	digits, rest, ok := strings.Cut(inner, "]")
	index, err := strconv.ParseInt(digits, 10, 32)
	return index, rest, ok && err == nil && index >= 0
}

// fieldOf finds a field, also in unnamed structs and unions inside; left is the
// remaining number of fields to visit.
func fieldOf(t *dwarf.StructType, name string, left *int) (offset int64, field *dwarf.StructField, ok bool) {
	for _, f := range t.Field {
		if *left--; *left < 0 {
			break
		}
		if f.Name == name {
			return f.ByteOffset, f, true
		}
		if inner, isStruct := plain(f.Type).(*dwarf.StructType); isStruct && f.Name == "" {
			if offset, field, ok := fieldOf(inner, name, left); ok {
				return f.ByteOffset + offset, field, true
			}
		}
	}
	return 0, nil, false
}

func fieldNames(t *dwarf.StructType) string {
	var names []string
	for _, f := range t.Field {
		if f.Name != "" {
			names = append(names, f.Name)
		}
	}
	if len(names) == 0 || len(names) > 20 {
		return ""
	}
	return " (it has " + strings.Join(names, ", ") + ")"
}

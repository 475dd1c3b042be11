package signature

import (
	"debug/dwarf"
	"errors"
	"fmt"
	"slices"
	"strings"

	"endoscope/planner/plan"
	"endoscope/probes/dwarf/debuginfo"
)

// builtin are the types that every C program has.
var builtin = func() map[string]Type {
	out := map[string]Type{"void": {Kind: Void}, "bool": {Kind: Bool, Size: 1}, "float": {Kind: Float, Size: 4}, "double": {Kind: Float, Size: 8},
		"char": {Kind: Int, Size: 1, Char: true}, "signed char": {Kind: Int, Size: 1}, "unsigned char": {Kind: Uint, Size: 1},
		"size_t": {Kind: Uint, Size: 8}, "uintptr_t": {Kind: Uint, Size: 8}, "ssize_t": {Kind: Int, Size: 8}, "intptr_t": {Kind: Int, Size: 8},
		"unsigned": {Kind: Uint, Size: 4}}
	for name, size := range map[string]int64{"short": 2, "int": 4, "long": 8, "long long": 8, "int8_t": 1, "int16_t": 2, "int32_t": 4, "int64_t": 8} {
		out[name] = Type{Kind: Int, Size: size}
		unsigned := "unsigned " + name
		if strings.HasSuffix(name, "_t") {
			unsigned = "u" + name
		}
		out[unsigned] = Type{Kind: Uint, Size: size}
	}
	return out
}()

// typeNames are the named types of a module: definitions, by name. A struct, class,
// union or enum is listed with its tag only; in C++ and Rust its name has its
// namespace's in front.
type typeNames map[string][]namedType

type namedType struct {
	at, unit dwarf.Offset
	tag      dwarf.Tag
	size     int64
}

// namedBytes is the memory of an entry of typeNames without its name: a namedType, the
// header of its list, and its place in the map.
const namedBytes = 128

// maxNamed limits the types of a module that are listed, and the entries that are read
// for the list.
const (
	maxNamed     = 1 << 20
	maxNameReads = 1 << 26
)

// named returns the type with a name, such as struct task **. Where several units
// define it, the one of unit counts.
func (f *Info) named(text string, unit dwarf.Offset) (*Type, error) {
	name := strings.Join(strings.Fields(strings.ReplaceAll(text, "*", " * ")), " ")
	stars := 0
	for {
		rest, ok := strings.CutSuffix(name, "*")
		if !ok {
			break
		}
		name = strings.TrimSpace(rest)
		stars++
	}
	for _, qualifier := range []string{"const ", "volatile "} {
		name = strings.TrimPrefix(name, qualifier)
	}
	if name == "" || stars > maxFollow {
		return nil, plan.Errorf(-1, -1, "'%s' is no type", text).WithHint("'struct task *'")
	}
	t, err := f.plainNamed(name, unit)
	for ; stars > 0 && err == nil; stars-- {
		t = pointerTo(t)
	}
	return t, err
}

// tags are the words before a type's name that say what it is.
var tags = map[string][]dwarf.Tag{
	"struct": {dwarf.TagStructType, dwarf.TagClassType}, "class": {dwarf.TagStructType, dwarf.TagClassType},
	"union": {dwarf.TagUnionType}, "enum": {dwarf.TagEnumerationType},
}

func (f *Info) plainNamed(name string, unit dwarf.Offset) (*Type, error) {
	if t, ok := builtin[name]; ok {
		t.Name, t.bare = name, name
		return &t, nil
	}
	if f.types == nil {
		types, err := f.listTypes()
		if err != nil {
			return nil, err
		}
		f.types = types
	}
	word, rest, tagged := strings.Cut(name, " ")
	allowed := tags[word]
	if tagged = tagged && allowed != nil; tagged {
		name = rest
	}
	var found []namedType
	for _, n := range f.types[name] {
		if !tagged || slices.Contains(allowed, n.tag) {
			found = append(found, n)
		}
	}
	if len(found) == 0 {
		var names []string
		for n := range f.types {
			names = append(names, n)
		}
		slices.Sort(names)
		e := plan.Errorf(-1, -1, "the program has no type %s", name)
		if f.isPart {
			e = plan.Errorf(-1, -1, "the function's source file uses no type %s", name)
		}
		if near := plan.Nearest(name, names, 2); len(near) > 0 {
			return nil, e.WithHint("did you mean %s?", strings.Join(near, " or "))
		}
		if f.isPart {
			return nil, e.WithHint("of split debug information (-gsplit-dwarf) that of the function's own source file is read")
		}
		return nil, e.WithHint("its debug information lists the types that it uses")
	}
	best := found[0]
	for _, n := range found {
		if n.unit == unit {
			best = n
			break
		}
		if n.size != best.size {
			return nil, plan.Errorf(-1, -1, "the program has several types %s, of %d and of %d bytes", name, best.size, n.size).WithHint("the one of the function's own source file is read, if it has one")
		}
	}
	return f.typeOf(best.at)
}

// listTypes reads the names of all types of the module.
func (f *Info) listTypes() (out typeNames, err error) {
	defer recovered(&err)
	out = typeNames{}
	r := f.d.Reader()
	unit, listed, left := dwarf.Offset(0), 0, maxNameReads
	kept := uint64(0)   // bytes of the list
	var spaces []string // the namespaces around the entry
	for {
		e, err := r.Next()
		if err != nil {
			return nil, fmt.Errorf("has damaged debug information: %w", err)
		}
		if e == nil {
			return out, debuginfo.Reserve(f, kept)
		}
		if left -= price(e); left < 0 {
			return nil, errors.New("has more debug information than is searched for names of types")
		}
		name, _ := e.Val(dwarf.AttrName).(string)
		switch e.Tag {
		case 0:
			if len(spaces) > 0 {
				spaces = spaces[:len(spaces)-1]
			}
			continue
		case dwarf.TagCompileUnit, dwarf.TagPartialUnit, dwarf.TagTypeUnit:
			unit, spaces = e.Offset, spaces[:0]
			if e.Children {
				spaces = append(spaces, "")
			}
			continue
		case dwarf.TagNamespace, dwarf.TagModule:
			if e.Children {
				if len(spaces) > maxDepth {
					return nil, errors.New("has damaged debug information: too many namespaces")
				}
				prefix := ""
				if len(spaces) > 0 {
					prefix = spaces[len(spaces)-1]
				}
				if name != "" {
					prefix += name + "::"
				}
				spaces = append(spaces, prefix)
			}
			continue
		case dwarf.TagStructType, dwarf.TagClassType, dwarf.TagUnionType, dwarf.TagEnumerationType, dwarf.TagTypedef, dwarf.TagBaseType:
			if declared, _ := e.Val(dwarf.AttrDeclaration).(bool); name == "" || declared {
				break
			}
			if len(spaces) > 0 {
				name = spaces[len(spaces)-1] + name
			}
			size, _ := e.Val(dwarf.AttrByteSize).(int64)
			if listed++; listed > maxNamed {
				return nil, fmt.Errorf("has more than %d types", maxNamed)
			}
			kept += uint64(len(name)) + namedBytes
			out[name] = append(out[name], namedType{e.Offset, unit, e.Tag, size})
		}
		left -= debuginfo.SkipChildren(r, e)
	}
}

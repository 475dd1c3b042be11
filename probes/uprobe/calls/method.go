package calls

import (
	"slices"
	"strings"

	"endoscope/planner/types"
	"endoscope/probes/elf"
	"endoscope/probes/uprobe/selection"
)

// Method describes a function as the method of a class.
type Method struct {
	Size   int64 // bytes of code; 0: unknown
	Native bool
	Class  string // as the label's
	On     called
}

// called says on what a method is called.
type called uint8

const (
	OnNothing called = iota
	// OnObject is for C++: `this` is the first argument, or the second after the
	// address for the result. For static methods and functions of a namespace, which
	// have the same form of name, it is whatever argument they receive.
	OnObject
	// OnPart is for constructors and destructors: the object has their own class,
	// whatever its pointer refers to at the entry ([class.cdtor] of the standard).
	OnPart
	// OnAnything is for functions without a name: an object, if the first argument is
	// one.
	OnAnything
	OnPointer // Go's: the first argument
	OnValue   // Go's: it has no address
)

// ReadsMethodColumns reports whether a query reads columns filled by receivers.
func ReadsMethodColumns(out types.Schema) bool {
	return slices.ContainsFunc(out.Fields, func(f types.Field) bool { return ColumnByName[f.Name].IsMethodColumn() })
}

func MethodOf(sym *elf.Module, c selection.Choice) Method {
	f := sym.Function(c.Index)
	m := Method{Size: int64(f.Size), Native: sym.Native(c.Index), Class: f.Class}
	switch {
	case f.Synthetic && !sym.HasGo():
		m.On = OnAnything
	case f.Class == "":
	case f.Lang == elf.CPP && isStructor(f.Name, f.Class):
		m.On = OnPart
	case f.Lang == elf.CPP:
		m.On = OnObject
	case f.Lang == elf.Go && strings.Contains(f.Name, ".(*"):
		m.On = OnPointer
	case f.Lang == elf.Go:
		m.On = OnValue
	}
	return m
}

// isStructor reports whether a C++ function of that name constructs or destructs
// objects of the class.
func isStructor(name, class string) bool {
	own, ok := strings.CutPrefix(name, class+"::")
	if !ok {
		return false
	}
	if strings.HasPrefix(own, "~") {
		return true
	}
	// The class without its qualifiers and template arguments.
	depth, end := 0, len(class)
	for i := len(class) - 1; i >= 0; i-- {
		switch class[i] {
		case '>', ')':
			depth++
		case '<', '(':
			if depth--; depth == 0 {
				end = i
			}
		case ':':
			if depth == 0 {
				return own == class[i+1:end]
			}
		}
	}
	return own == class[:end]
}

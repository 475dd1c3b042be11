package uprobe

import (
	"slices"
	"strings"

	"endoscope/planner/types"
	"endoscope/probes/elf"
	"endoscope/probes/uprobe/selection"
)

// method is what is known of a function as the method of a class.
type method struct {
	size   int64 // bytes of code; 0: not known
	native bool
	class  string // as the label's
	called called
}

// called says on what a method is called.
type called uint8

const (
	onNothing called = iota
	// onObject is C++'s: `this` is the first argument, or the second behind the
	// address of where to put the result. That of a static method and of a
	// function of a namespace, which have the same names, is what they are given.
	onObject
	// onPart is a constructor's or destructor's: the object is one of their own
	// class, whatever its pointer says at the entry ([class.cdtor] of the standard).
	onPart
	// onAnything is without a name: an object, if the first argument is one.
	onAnything
	onPointer // Go's: the first argument
	onValue   // Go's: it has no address
)

// asksMethods reports whether a query reads what receivers tell.
func asksMethods(out types.Schema) bool {
	return slices.ContainsFunc(out.Fields, func(f types.Field) bool { return columnByName[f.Name].aboutMethods() })
}

func methodOf(sym *elf.Module, c selection.Choice) method {
	f := sym.Function(c.Index)
	m := method{size: int64(f.Size), native: sym.Native(c.Index), class: f.Class}
	switch {
	case f.Synthetic && !sym.HasGo():
		m.called = onAnything
	case f.Class == "":
	case f.Lang == elf.CPP && isStructor(f.Name, f.Class):
		m.called = onPart
	case f.Lang == elf.CPP:
		m.called = onObject
	case f.Lang == elf.Go && strings.Contains(f.Name, ".(*"):
		m.called = onPointer
	case f.Lang == elf.Go:
		m.called = onValue
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
	// The class without what qualifies it and without template arguments.
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

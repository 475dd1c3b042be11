package signature

import (
	"debug/dwarf"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"endoscope/probes/codesite"
	"endoscope/probes/dwarf/op"
	"endoscope/probes/elf"
)

// Optimisations that a compiler may apply if it knows the callers of a
// function:
//
// LLVM (DeadArgumentElimination.cpp) lets the callers of a function that does
// not use an argument pass any value, even if other files may call the
// function, and omits the location of the parameter. If no other file can call
// it, LLVM removes unused arguments and results: later ones move up. It marks
// that by DW_CC_nocall since version 16, but not for functions with a
// DW_AT_specification, as methods have.
//
// GCC (ipa-sra.cc, ipa-cp.cc, ipa-split.cc) gives the changed function a name
// of its own.

// uses analyses the code of a module: which registers are read, by a function
// and by its callers.
type uses interface {
	// entryRead reports whether the function reads the entry value of a
	// register.
	entryRead(reg int) bool
	// resultRead reports whether a caller reads the function's result from a
	// register.
	resultRead(reg int) bool
}

type moduleUses struct {
	m *elf.Module
	i int
}

func (u *moduleUses) entryRead(reg int) bool {
	return codesite.In(u.m).ReadAtEntry(u.i, op.Register(reg))
}
func (u *moduleUses) resultRead(reg int) bool {
	return codesite.In(u.m).ResultRead(u.i, op.Register(reg))
}

// areRead reports whether the function reads the registers that the pieces are
// in or based on.
func (r *reader) areRead(pieces []op.Piece) bool {
	for _, p := range pieces {
		inRegister := p.Kind == op.InRegister || p.Kind == op.Computed || p.Kind == op.InMemory && p.Register != op.CFA
		if inRegister && p.Register < dwXMM0 && !r.uses.entryRead(p.Register) {
			return false
		}
	}
	return true
}

// isTaken reports whether an earlier parameter is in one of the registers: GCC
// describes parameters that are passed first, and may describe a register for
// one that is not.
func (r *reader) isTaken(pieces []op.Piece, earlier []Param) bool {
	return slices.ContainsFunc(earlier, func(e Param) bool {
		return slices.ContainsFunc(e.pieces, func(a op.Piece) bool {
			return slices.ContainsFunc(pieces, func(b op.Piece) bool {
				return a.Kind == op.InRegister && b.Kind == op.InRegister && a.Register == b.Register
			})
		})
	})
}

// compiler is the producer of a unit.
type compiler struct {
	gnu   bool
	clang bool
	marks bool // it marks functions that are not called by the standard convention
}

var versionOf = regexp.MustCompile(`(clang|rustc) version (\d+)\.(\d+)`)

// compilerOf reads DW_AT_producer. An unknown compiler is assumed to behave
// like LLVM.
func compilerOf(unit *dwarf.Entry) (c compiler) {
	producer, _ := unit.Val(dwarf.AttrProducer).(string)
	c.gnu = strings.HasPrefix(producer, "GNU ")
	v := versionOf.FindStringSubmatch(producer)
	if v == nil {
		return c
	}
	major, _ := strconv.Atoi(v[2])
	minor, _ := strconv.Atoi(v[3])
	c.clang = v[1] == "clang"
	c.marks = c.clang && major >= 16 || !c.clang && (major > 1 || minor >= 70) // it has LLVM 16
	return c
}

// Attributes that say that all calls, or all tail calls, in a function are
// described: Clang sets one of them on optimised functions
// (getCallSiteRelatedAttrs).
var callsDescribed = []dwarf.Attr{0x7a, 0x7b, 0x7c, 0x2116, 0x2117, 0x2118}

// isOptimised reports whether a function compiled by LLVM is optimised, as far
// as can be told: in unoptimised code all parameters are in memory throughout
// the function.
func (r *reader) isOptimised(e *dwarf.Entry, params []*dwarf.Entry) bool {
	if r.by.clang {
		return slices.ContainsFunc(callsDescribed, func(a dwarf.Attr) bool { return e.Val(a) != nil })
	}
	return len(params) == 0 || slices.ContainsFunc(params, func(p *dwarf.Entry) bool {
		expr, _ := p.Val(dwarf.AttrLocation).([]byte)
		return len(expr) == 0 || expr[0] != op.Fbreg
	})
}

// mayRemoveParameters reports whether the compiler may remove arguments and
// results of a function without marking it.
func (r *reader) mayRemoveParameters() bool { return !r.by.gnu && r.of.Lang != elf.Go && r.local }

// parametersMoved reports whether a parameter is missing, so that others may be
// in other registers than their types imply.
func (r *reader) parametersMoved(params []*dwarf.Entry) bool {
	if !r.mayRemoveParameters() {
		return false
	}
	for _, p := range params {
		expr, _, err := r.located(r.unit, p, r.of.Addr)
		if err != nil || expr == nil {
			return true
		}
		pieces, err := locateAtEntry(expr, r.frameBase)
		if err == nil && slices.ContainsFunc(pieces, func(p op.Piece) bool { return p.Kind == op.Constant || p.Kind == op.Nowhere }) {
			return true
		}
	}
	return false
}

var (
	errUnreadArgument = errors.New("is not read by the compiled function: its callers may pass anything in its place")
	errUnreadResult   = errors.New("is read by no caller that is known: the compiler may have made the function return nothing")
)

// returnsResult reports whether the function returns what its type says. A
// result in registers is certain if a caller reads it.
func (r *reader) returnsResult(e *dwarf.Entry, params []*dwarf.Entry, result *Param) bool {
	mayChange := r.changed()
	if r.mayRemoveParameters() && !mayChange {
		mayChange = r.isOptimised(e, params) && (!r.by.marks || e.Val(dwarf.AttrSpecification) != nil)
	}
	if !mayChange {
		return true
	}
	for _, p := range result.pieces {
		switch {
		case p.Kind == op.InMemory: // the caller passes the address, as an argument
		case p.Kind == op.InRegister && (p.Register == dwAX || p.Register == dwDX) && r.uses.resultRead(p.Register):
		default:
			return false
		}
	}
	return true
}

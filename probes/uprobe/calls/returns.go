package calls

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/codesite"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/selection"
)

// Returns is how the returns of a function are observed.
type Returns uint8

const (
	Unseen  Returns = iota
	Trapped         // by the kernel's return trap, set at the entry
	AtExits         // by probes at the instructions by which the function leaves

	// Not functions, but the places at which a Java machine or Python's interpreter
	// reports that a method or a function begins or ends.
	ReportedEntry
	ReportedReturn
)

// Nests reports whether a query must know which calls enclose which.
func Nests(spec *plan.Acquire) bool {
	return spec.Stream == catalog.FunctionCall || len(Nesting(spec)) > 0
}

// Nesting returns the columns of a query, outside function_call, that depend on how
// calls nest.
func Nesting(spec *plan.Acquire) (names []string) {
	for _, f := range spec.Out.Fields {
		if c := ColumnByName[f.Name]; c == ColDepth || c == ColSelf {
			names = append(names, f.Name)
		}
	}
	return names
}

// CheckNesting rejects a query on the nesting of calls where the kernel cannot follow
// it: the order of calls for every way of observing returns, their depth where exits
// are probed.
func CheckNesting(spec *plan.Acquire, ws []Function) error {
	if !Nests(spec) && !selection.OfMemory(spec) || attach.FeatureLoop.Has() && attach.FeatureFindVMA.Has() {
		return nil
	}
	if spec.Stream == catalog.FunctionCall {
		return plan.Errorf(spec.Start, spec.Stop, "%s needs Linux %s or newer: this kernel has no %s", spec.Stream, attach.FeatureLoop.Since, attach.FeatureLoop.Name)
	}
	if !slices.ContainsFunc(ws, func(w Function) bool { return w.Returns == AtExits }) {
		return nil
	}
	if selection.OfMemory(spec) {
		return plan.Errorf(spec.Start, spec.Stop, "%s of functions whose exits are probed needs Linux %s or newer: this kernel has no %s", spec.Stream, attach.FeatureLoop.Since, attach.FeatureLoop.Name)
	}
	columns := strings.Join(Nesting(spec), " and ")
	return plan.Errorf(spec.Start, spec.Stop, "the %s of calls whose exits are probed needs Linux %s or newer: this kernel has no %s", columns, attach.FeatureLoop.Since, attach.FeatureLoop.Name).
		WithHint("leave out %s", columns)
}

// Pairable returns nil if a call's entry can be distinguished from its exits, and both
// can be found by the call's frame. The function begins at the address begin.
func Pairable(begin uint64, entry codesite.Site, exits []codesite.Site) error {
	for _, s := range append([]codesite.Site{entry}, exits...) {
		if s.SPOffset < 0 || s.SPOffset%8 != 0 || s.SPOffset > abi.MaxSPOffset {
			return fmt.Errorf("has a stack frame of %d bytes at +%d", s.SPOffset, s.Addr-begin)
		}
	}
	// The kernel runs the programs of one instruction in an order in which the entry
	// comes first; see Provider.attach.
	if slices.ContainsFunc(exits, func(s codesite.Site) bool { return begin <= s.Addr && s.Addr < entry.Addr }) {
		return errors.New("may leave before it comes to the instruction that counts its calls")
	}
	return nil
}

// ExitCookie returns the data for the program at an exit of function i: the function's
// number, the position of the return address, and whether a value is returned.
func ExitCookie(i int, w Function, exit codesite.Site) uint64 {
	c := uint64(i) | uint64(w.Flags) | SpOffset(exit)
	if !exit.RetvalReady {
		c |= abi.NoRetval
	}
	return c
}

// SwitchCookie returns the data for the program at a switch of stacks (coroutines.h).
func SwitchCookie(s codesite.Switch) uint64 {
	const memory, saves, carry = 1 << 5, 1 << 6, 1 << 7
	// By x86's numbers: indices of the registers' words in struct pt_regs.
	words := [...]uint64{10, 11, 12, 5, 19, 4, 13, 14, 9, 8, 7, 6, 3, 2, 1, 0}
	c := words[s.Register] | uint64(uint8(s.Down/8))<<8 | uint64(uint8(s.Saved/8))<<16 | uint64(uint32(s.Disp))<<32
	if s.Memory {
		c |= memory
	}
	if s.Saves {
		c |= saves
	}
	if s.IfCarry {
		c |= carry
	}
	return c
}

// SpOffset returns a site's SPOffset as encoded in a cookie.
func SpOffset(s codesite.Site) uint64 { return uint64(s.SPOffset) >> 3 << 48 }

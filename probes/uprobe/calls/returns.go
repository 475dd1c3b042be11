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

	// Not functions, but what a Java machine passes when one of its methods
	// begins and ends.
	JavaEntry
	JavaReturn
)

// Nests reports whether a query must know which calls enclose which.
func Nests(spec *plan.Acquire) bool {
	return spec.Stream == catalog.FunctionCall || len(Nesting(spec)) > 0
}

// Nesting are the columns of a query, but of function_call, that say how calls nest.
func Nesting(spec *plan.Acquire) (names []string) {
	for _, f := range spec.Out.Fields {
		if c := ColumnByName[f.Name]; c == ColDepth || c == ColSelf {
			names = append(names, f.Name)
		}
	}
	return names
}

// CheckNesting refuses to follow how calls nest where the kernel cannot: their
// order however returns are observed, and their depth where exits are probed.
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

// Pairable reports whether a call's entry can be told from its exits, and found
// by its frame at both. The function begins at the address begin.
func Pairable(begin uint64, entry codesite.Site, exits []codesite.Site) error {
	for _, s := range append([]codesite.Site{entry}, exits...) {
		if s.SPOffset < 0 || s.SPOffset%8 != 0 || s.SPOffset > abi.MaxSPOffset {
			return fmt.Errorf("has a stack frame of %d bytes at +%d", s.SPOffset, s.Addr-begin)
		}
	}
	// The kernel runs the programs of one instruction in the order in which the
	// entry comes first; see Provider.attach.
	if slices.ContainsFunc(exits, func(s codesite.Site) bool { return begin <= s.Addr && s.Addr < entry.Addr }) {
		return errors.New("may leave before it comes to the instruction that counts its calls")
	}
	return nil
}

// ExitCookie is what the program at an exit of function i knows: which function
// it is, where the return address lies, and whether a value is returned.
func ExitCookie(i int, w Function, exit codesite.Site) uint64 {
	c := uint64(i) | uint64(w.Flags) | SpOffset(exit)
	if !exit.RetvalReady {
		c |= abi.NoRetval
	}
	return c
}

// SpOffset is a site's SPOffset in a cookie.
func SpOffset(s codesite.Site) uint64 { return uint64(s.SPOffset) >> 3 << 48 }

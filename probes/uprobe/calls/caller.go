package calls

import (
	"slices"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/uprobe/attach"
)

// ReadsCaller reports whether a query reads caller or stack, or names of addresses, which
// are found in the same way.
func ReadsCaller(out types.Schema) bool {
	return Reads(out, ColCaller) || Reads(out, ColStack) || slices.ContainsFunc(out.Fields, func(f types.Field) bool {
		v, ok := parseValue(f.Name)
		return ok && v.As == AsSymbol
	})
}

// CheckStack rejects a query that reads stack where the kernel cannot copy stacks.
func CheckStack(spec *plan.Acquire) error {
	if !Reads(spec.Out, ColStack) || attach.FeatureDynptr.Has() {
		return nil
	}
	return plan.Errorf(spec.Start, spec.Stop, "the stacks of calls need Linux %s or newer: this kernel has no %s", attach.FeatureDynptr.Since, attach.FeatureDynptr.Name).
		WithHint("leave out stack; caller works")
}

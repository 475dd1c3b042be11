package calls

import (
	"fmt"
	"strings"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/dwarf/signature"
)

// What type a value has only its functions say. Of those that come with a library while
// the query runs nobody knows it when it is planned; then it is what a CAST of the value
// in the statement says. Where a value is of that type in one function and of another in
// the next, it is read as what CAST would make of it: the number of an enum or of a truth
// value for BIGINT, a number as a fraction for DOUBLE, a number's digits for VARCHAR.
// What would be read wrong is refused by name, and its function is not probed.

// readAs reads a value as a number if the column's type takes it for one, by what read
// does for where.
func (v *Value) readAs(read func([]string, signature.Where) (signature.Value, error), where signature.Where) (signature.Value, error) {
	x, err := read(v.Path, where)
	if err == nil && v.T == types.Bigint && x.Text == nil && (x.Type == types.Varchar || x.Type == types.Boolean) {
		where.AsNumber = true
		return read(v.Path, where)
	}
	return x, err
}

// castable reports whether a value is read right where it is said to be of type t.
func castable(x signature.Value, t types.Type) bool {
	switch {
	case x.Type == t:
		return true
	case t == types.Bigint:
		return x.Text == nil && (x.Type == types.Varchar || x.Type == types.Boolean)
	case t == types.Double, t == types.Varchar:
		return x.Type == types.Bigint
	}
	return false
}

// checkCast refuses a value that cannot be of type t in one of n functions.
func (v *Value) checkCast(t types.Type, n int, of func(f int) (FunctionValue, string)) error {
	have, text, first := false, false, ""
	for f := range n {
		x, name := of(f)
		if x.err != nil {
			continue
		}
		if !castable(x.Value, t) {
			return plan.Errorf(-1, -1, "%s is %s in %s, which is not read as %s", v.Name, x.Type, name, t).WithHint("choose functions that agree, or cast it to %s", x.Type)
		}
		isText := t == types.Varchar && x.Text != nil
		if have && isText != text {
			return plan.Errorf(-1, -1, "%s is a text in one of %s and %s, and a number in the other", v.Name, first, name).WithHint("choose functions that agree")
		}
		have, text, first = true, isText, name
	}
	return nil
}

// Unknown refuses a value that is of no type yet.
func (v *Value) Unknown(spec *plan.Acquire) error {
	err := plan.Errorf(spec.Start, spec.Stop, "what type %s has is not known yet: nothing that is loaded has a function with %s", v.Name, spec.Select)
	return &plan.InColumn{Column: v.Name, Err: err.WithHint("say it: CAST(%s AS BIGINT), or VARCHAR, DOUBLE, BOOLEAN; or ask once the library is loaded", v.Name)}
}

// SaidNotice says by what values are read whose functions are not there yet; "": there
// are none.
func SaidNotice(spec *plan.Acquire) string {
	var said []string
	for _, v := range ValuesOf(spec) {
		if v != nil && v.Path != nil && !v.Whole && !v.asText {
			said = append(said, fmt.Sprintf("%s as %s", v.Name, v.T))
		}
	}
	if len(said) == 0 {
		return ""
	}
	return "what is loaded later is read by what the statement casts it to: " + strings.Join(said, ", ")
}

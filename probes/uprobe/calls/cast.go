package calls

import (
	"fmt"
	"strings"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/dwarf/signature"
)

// The type of a value is known only from the functions that have it. If all functions
// come from a library loaded while the query runs, the type is unknown when the query
// is planned; then the type of a CAST of the value in the statement is used. If
// functions disagree about a value's type, the value is converted as CAST would: an
// enum, a boolean or an unsigned number to its number for BIGINT, a number to a fraction
// for DOUBLE, a number to its digits for VARCHAR. A value that would be read wrong is rejected by
// name, and its function is not probed.

// readAs reads a value with the function read, and as a number if the column's type
// accepts it as one.
func (v *Value) readAs(read func([]string, signature.Where) (signature.Value, error), where signature.Where) (signature.Value, error) {
	x, err := read(v.Path, where)
	number := v.T == types.Bigint && x.Text == nil && (x.Type == types.Varchar || x.Type == types.Boolean) ||
		v.T != types.Null && v.T != types.Ubigint && x.Type == types.Ubigint
	if err == nil && number {
		where.AsNumber = true
		return read(v.Path, where)
	}
	return x, err
}

// castable reports whether a value can be read correctly as type t.
func castable(x signature.Value, t types.Type) bool {
	switch {
	case x.Type == t:
		return true
	case t == types.Bigint:
		return x.Text == nil && (x.Type == types.Varchar || x.Type == types.Boolean || x.Type == types.Ubigint)
	case t == types.Ubigint:
		return x.Type == types.Bigint && x.Unsigned
	case t == types.Double, t == types.Varchar:
		return x.Type == types.Bigint || x.Type == types.Ubigint
	}
	return false
}

// checkCast returns an error if the value cannot be read as type t in one of n
// functions.
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

// Unknown returns the error for a value without a known type.
func (v *Value) Unknown(spec *plan.Acquire) error {
	err := plan.Errorf(spec.Start, spec.Stop, "the type of %s is not known yet: no loaded module has a function with %s", v.Name, spec.Select)
	return &plan.InColumn{Column: v.Name, Err: err.WithHint("state the type: CAST(%s AS BIGINT), or UBIGINT, VARCHAR, DOUBLE, BOOLEAN; or start the query when the library is loaded", v.Name)}
}

// AssumedTypesNotice returns the notice that lists the types used for functions that are not
// loaded yet; "" if there are none.
func AssumedTypesNotice(spec *plan.Acquire) string {
	var said []string
	for _, v := range ValuesOf(spec) {
		if v != nil && v.Path != nil && !v.Whole && !v.all && v.As == AsItself {
			said = append(said, fmt.Sprintf("%s as %s", v.Name, v.T))
		}
	}
	if len(said) == 0 {
		return ""
	}
	return "what is loaded later is read by what the statement casts it to: " + strings.Join(said, ", ")
}

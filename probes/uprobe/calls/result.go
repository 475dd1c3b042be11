package calls

import (
	"errors"
	"fmt"
	"slices"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/codegen"
	"endoscope/probes/dwarf/signature"
)

// A returned value has the type given by the debug information, if the chosen
// functions agree. If they differ it is BIGINT: a number as wide as the function's
// type, an address, or an enum's number; and the raw register where no type is known.
// A value that cannot be read, or does not fit, is NULL.

// maxTyped is the largest number of functions whose results are read by type. Larger
// selections usually mean all functions, few of which have the same type.
const maxTyped = 256

var errManyTypes = errors.New("is one of many")

// registerValue is the returned value if its type is unknown.
var registerValue = signature.Value{Value: codegen.Value{Number: &codegen.Integer{Register: regAX}}, Type: types.Bigint}

// WholeOnly returns the column of the returned value if no other value is read by its
// type; else -1.
func WholeOnly(vs []*Value) int {
	only := -1
	for i, v := range vs {
		switch {
		case v == nil || v.Path == nil:
		case !v.Whole:
			return -1
		default:
			only = i
		}
	}
	return only
}

// mayBe reports whether the value's type is t, or unknown.
func (v *Value) mayBe(t types.Type) bool { return v.T == types.Null || v.T == t }

// Common returns the common type of the returned values, from the functions' values in
// a column. The error says why none can be read.
func Common(found [][]FunctionValue, column int) (t types.Type, err error) {
	have, text := false, false
	for _, f := range found {
		x := f[column]
		switch {
		case x.err != nil:
			if err == nil {
				err = x.err
			}
		case !have:
			t, text, have = x.Type, x.Text != nil, true
		case x.Type != t || (x.Text != nil) != text:
			return types.Bigint, nil
		}
	}
	if !have {
		return types.Bigint, err
	}
	return t, nil
}

// isRegister reports whether the value is the raw register in all functions.
func (v *Value) isRegister(wants []Function, column int) bool {
	if v.T != types.Bigint && v.T != types.Ubigint {
		return false
	}
	if len(wants) > maxTyped {
		return true
	}
	for _, w := range wants {
		x := w.Values[column]
		if n := x.Number; x.err != nil || n == nil || n.Register != regAX || n.Memory || n.Address || n.Known || n.Fits || len(n.Follow) > 0 || n.Shift > 0 || n.Bits%64 != 0 {
			return false
		}
	}
	return true
}

// conform makes the value NULL in functions where it is a text if it is an enum's name
// in others, or the other way round. Modules loaded later follow the earlier ones.
func (v *Value) conform(wants []Function, column int) {
	have, text := false, false
	for f := range wants {
		x := &wants[f].Values[column]
		switch {
		case x.err != nil:
		case !have:
			have, text = true, x.Text != nil
		case (x.Text != nil) != text:
			x.Value, x.err = signature.Value{}, plan.Errorf(-1, -1, "%s of %s is another kind of text", v.Name, wants[f].Label.Function)
		}
	}
}

// UnreadValues returns notices about values that cannot be read in some of the
// functions that have them, with reasons.
func UnreadValues(vs []*Value, wants []Function) (notices []string) {
	for i, v := range vs {
		if v == nil || v.Path == nil {
			continue
		}
		var first error
		more := -1
		for _, w := range wants {
			if x := w.Values[i]; x.err != nil && !x.none {
				if more++; first == nil {
					first = x.err
				}
			}
		}
		switch {
		case more == 0:
			notices = append(notices, first.Error()+": it is NULL")
		case more > 0:
			notices = append(notices, fmt.Sprintf("%v: it is NULL there, and of %d others", first, more))
		}
		if k := slices.IndexFunc(wants, func(w Function) bool { return w.Values[i].Lacks != nil }); k >= 0 {
			notices = append(notices, wants[k].Values[i].Lacks.Error()+": it is null")
		}
	}
	return notices
}

// ReadsResults reports whether a query reads texts or fields of returned values, not
// only the register.
func ReadsResults(out types.Schema, by plan.Results) bool {
	return slices.ContainsFunc(out.Fields, func(f types.Field) bool {
		v, ok := parseValue(f.Name)
		return ok && v.Result || f.Name == retvalName && by != plan.RawResults && f.Type == types.Varchar
	})
}

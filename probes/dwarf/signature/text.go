package signature

import (
	"errors"
	"strings"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/codegen"
)

// textStructs are the structs that are texts, by their fields: a pointer, and a
// length in bytes.
var textStructs = []struct {
	is      func(t *Type) bool
	pointer []string
	length  []string
}{
	// Go's string, under any name
	{func(t *Type) bool { return t.bare == "string" || t.goKind == goString }, []string{"str"}, []string{"len"}},
	// Rust's &str and String
	{func(t *Type) bool { return t.bare == "&str" }, []string{"data_ptr"}, []string{"length"}},
	{isRustString, []string{"vec", "buf", firstPointer}, []string{"vec", "len"}},
	// std::string and std::string_view of libstdc++, and string_view of libc++
	{func(t *Type) bool { return t.bare == "string" || strings.HasPrefix(t.bare, "basic_string<char") },
		[]string{"_M_dataplus", "_M_p"}, []string{"_M_string_length"}},
	{isStringView, []string{"_M_str"}, []string{"_M_len"}},
	{isStringView, []string{"__data_"}, []string{"__size_"}},
}

func isRustString(t *Type) bool { return t.bare == "String" }

func isStringView(t *Type) bool {
	return t.bare == "string_view" || strings.HasPrefix(t.bare, "basic_string_view<char,")
}

// firstPointer is the first pointer in a struct, in any nesting of structs: the
// nesting between a Rust Vec and its memory differs by version.
const firstPointer = "*"

// textStruct reads a struct that is a text. ok is false for others.
func (f *Function) textStruct(o object, at Where) (v Value, ok bool, err error) {
	for _, known := range textStructs {
		if !known.is(o.t) {
			continue
		}
		p, err := f.within(o, known.pointer, at)
		n := o
		if err == nil {
			n, err = f.within(o, known.length, at)
		}
		var other *plan.Error
		if errors.As(err, &other) {
			continue // another library's
		}
		if err != nil {
			return v, true, err
		}
		v, err = textOf(p, n, at)
		return v, true, err
	}
	return v, false, nil
}

// within returns a field of a field.
func (f *Function) within(o object, path []string, at Where) (object, error) {
	for _, name := range path {
		var err error
		if name != firstPointer {
			o, err = f.field(o, name, at)
		} else {
			o, err = f.pointerIn(o, maxDepth)
		}
		if err != nil {
			return o, err
		}
	}
	return o, nil
}

// pointerIn returns the first pointer in an object.
func (f *Function) pointerIn(o object, depth int) (object, error) {
	none := plan.Errorf(-1, -1, "%s has no pointer", o.t.Name)
	switch {
	case o.t.Kind == Pointer:
		return o, nil
	case o.t.Kind != Struct || depth == 0:
		return o, none
	}
	ms, err := f.info.members(o.t)
	if err != nil {
		return o, err
	}
	for _, m := range ms {
		inner := o
		inner.offset += m.offset
		inner.t, inner.bit, inner.bits = m.t, m.bit, m.bits
		var other *plan.Error
		if inner, err = f.pointerIn(inner, depth-1); err == nil || !errors.As(err, &other) {
			return inner, err
		}
	}
	return o, none
}

// textOf returns the text with a pointer and a length.
func textOf(p, n object, at Where) (v Value, err error) {
	address, err := p.number(0, 64, false)
	if err != nil {
		return v, err
	}
	size, err := n.number(0, 64, false)
	return Value{Value: codegen.Value{Text: &codegen.Text{At: address, Length: &size, Max: at.MaxText}}, Type: types.Varchar}, err
}

package calls

import (
	"errors"
	"strings"
	"testing"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/codegen"
	"endoscope/probes/dwarf/signature"
)

// TestCastable checks which values can be read as which type, and which are rejected:
// a value whose type differs between two functions is one column of both.
func TestCastable(t *testing.T) {
	number := FunctionValue{Value: signature.Value{Type: types.Bigint}}
	truth := FunctionValue{Value: signature.Value{Type: types.Boolean}}
	fraction := FunctionValue{Value: signature.Value{Type: types.Double, Float: 8}}
	enum := FunctionValue{Value: signature.Value{Type: types.Varchar, Names: map[int64]string{0: "RED"}}}
	text := FunctionValue{Value: signature.Value{Type: types.Varchar, Value: codegen.Value{Text: &codegen.Text{}}}}
	absent := FunctionValue{err: errors.New("has none")}
	for _, c := range []struct {
		to      types.Type
		values  []FunctionValue
		refused string // "": accepted
	}{
		{types.Bigint, []FunctionValue{number, truth, enum, absent}, ""},
		{types.Bigint, []FunctionValue{number, fraction}, "v is DOUBLE in b, which is not read as BIGINT"},
		{types.Bigint, []FunctionValue{number, absent, text}, "v is VARCHAR in c, which is not read as BIGINT"},
		{types.Double, []FunctionValue{fraction, number}, ""},
		{types.Double, []FunctionValue{fraction, enum}, "v is VARCHAR in b, which is not read as DOUBLE"},
		{types.Varchar, []FunctionValue{enum, number}, ""},
		{types.Varchar, []FunctionValue{text, text}, ""},
		{types.Varchar, []FunctionValue{text, absent, number}, "v is a text in one of a and c, and a number in the other"},
		{types.Varchar, []FunctionValue{enum, text}, "v is a text in one of a and b, and a number in the other"},
		{types.Varchar, []FunctionValue{truth}, "v is BOOLEAN in a, which is not read as VARCHAR"},
		{types.Boolean, []FunctionValue{truth, number}, "v is BIGINT in b, which is not read as BOOLEAN"},
	} {
		v := &Value{Name: "v"}
		said := ""
		var refusal *plan.Error
		if err := v.checkCast(c.to, len(c.values), func(f int) (FunctionValue, string) { return c.values[f], string(rune('a' + f)) }); errors.As(err, &refusal) {
			said = refusal.Msg
		}
		if said != c.refused || strings.Contains(said, "%!") {
			t.Errorf("as %s: %q, want %q", c.to, said, c.refused)
		}
	}
}

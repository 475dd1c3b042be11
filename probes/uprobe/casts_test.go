package uprobe

import (
	"errors"
	"strings"
	"testing"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/codegen"
	"endoscope/probes/dwarf/signature"
)

// What is read right as which type, and what is refused: a value that two functions have
// differently is one column of rows of both.
func TestCastable(t *testing.T) {
	number := functionValue{Value: signature.Value{Type: types.Bigint}}
	truth := functionValue{Value: signature.Value{Type: types.Boolean}}
	fraction := functionValue{Value: signature.Value{Type: types.Double, Float: 8}}
	enum := functionValue{Value: signature.Value{Type: types.Varchar, Names: map[int64]string{0: "RED"}}}
	text := functionValue{Value: signature.Value{Type: types.Varchar, Value: codegen.Value{Text: &codegen.Text{}}}}
	absent := functionValue{err: errors.New("has none")}
	for _, c := range []struct {
		to      types.Type
		values  []functionValue
		refused string // "": it is not
	}{
		{types.Bigint, []functionValue{number, truth, enum, absent}, ""},
		{types.Bigint, []functionValue{number, fraction}, "v is DOUBLE in b, which is not read as BIGINT"},
		{types.Bigint, []functionValue{number, absent, text}, "v is VARCHAR in c, which is not read as BIGINT"},
		{types.Double, []functionValue{fraction, number}, ""},
		{types.Double, []functionValue{fraction, enum}, "v is VARCHAR in b, which is not read as DOUBLE"},
		{types.Varchar, []functionValue{enum, number}, ""},
		{types.Varchar, []functionValue{text, text}, ""},
		{types.Varchar, []functionValue{text, absent, number}, "v is a text in one of a and c, and a number in the other"},
		{types.Varchar, []functionValue{enum, text}, "v is a text in one of a and b, and a number in the other"},
		{types.Varchar, []functionValue{truth}, "v is BOOLEAN in a, which is not read as VARCHAR"},
		{types.Boolean, []functionValue{truth, number}, "v is BIGINT in b, which is not read as BOOLEAN"},
	} {
		v := &readValue{name: "v"}
		said := ""
		var refusal *plan.Error
		if err := v.checkCast(c.to, len(c.values), func(f int) (functionValue, string) { return c.values[f], string(rune('a' + f)) }); errors.As(err, &refusal) {
			said = refusal.Msg
		}
		if said != c.refused || strings.Contains(said, "%!") {
			t.Errorf("as %s: %q, want %q", c.to, said, c.refused)
		}
	}
}

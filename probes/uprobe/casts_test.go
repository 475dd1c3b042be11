package uprobe

import (
	"errors"
	"strings"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/probes/codegen"
	"endoscope/probes/signature"
)

// What is read right as which type, and what is refused: a value that two functions have
// differently is one column of rows of both.
func TestCastable(t *testing.T) {
	number := functionValue{Value: signature.Value{Type: batch.Bigint}}
	truth := functionValue{Value: signature.Value{Type: batch.Boolean}}
	fraction := functionValue{Value: signature.Value{Type: batch.Double, Float: 8}}
	enum := functionValue{Value: signature.Value{Type: batch.Varchar, Names: map[int64]string{0: "RED"}}}
	text := functionValue{Value: signature.Value{Type: batch.Varchar, Value: codegen.Value{Text: &codegen.Text{}}}}
	absent := functionValue{err: errors.New("has none")}
	for _, c := range []struct {
		to      batch.Type
		values  []functionValue
		refused string // "": it is not
	}{
		{batch.Bigint, []functionValue{number, truth, enum, absent}, ""},
		{batch.Bigint, []functionValue{number, fraction}, "v is DOUBLE in b, which is not read as BIGINT"},
		{batch.Bigint, []functionValue{number, absent, text}, "v is VARCHAR in c, which is not read as BIGINT"},
		{batch.Double, []functionValue{fraction, number}, ""},
		{batch.Double, []functionValue{fraction, enum}, "v is VARCHAR in b, which is not read as DOUBLE"},
		{batch.Varchar, []functionValue{enum, number}, ""},
		{batch.Varchar, []functionValue{text, text}, ""},
		{batch.Varchar, []functionValue{text, absent, number}, "v is a text in one of a and c, and a number in the other"},
		{batch.Varchar, []functionValue{enum, text}, "v is a text in one of a and b, and a number in the other"},
		{batch.Varchar, []functionValue{truth}, "v is BOOLEAN in a, which is not read as VARCHAR"},
		{batch.Boolean, []functionValue{truth, number}, "v is BIGINT in b, which is not read as BOOLEAN"},
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

package expr

import (
	"strings"
	"testing"

	"endoscope/operators/encoders"
	"endoscope/operators/encoders/structure"
	"endoscope/planner/types"
)

func TestFormsOfEncodings(t *testing.T) {
	a := encoders.NewAlphabet()
	e := structure.NewRunLengths(a, structure.RLEOptions{}, encoders.Limits{})
	e.Append([]encoders.Symbol{a.Symbol("A"), a.Symbol("B"), a.Symbol("B")}, nil)
	in := []types.Type{types.Encoding}
	rows := batchOf(in, vs(types.Value{Type: types.Encoding, A: e.Encode()}), vs(N(types.Encoding)))
	for fn, want := range map[string]string{
		"text": "A 2:B",
		"json": `{"encoding":"rle","sequences":1,"symbols":3,"runs":[[{"symbol":"A","n":1},{"symbol":"B","n":2}]]}`,
	} {
		c, err := mustCompile(t, call(fn, col(0, types.Encoding)), in).Eval(rows)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Value(0); got.S != want || !c.Value(1).IsNull {
			t.Errorf("%s gives %s and %v, want %s and NULL", fn, got.S, c.Value(1), want)
		}
	}
	for _, fn := range []string{"dot", "mermaid", "svg"} {
		_, err := mustCompile(t, call(fn, col(0, types.Encoding)), in).Eval(rows)
		if err == nil || !strings.Contains(err.Error(), "is not a") {
			t.Errorf("%s of runs: %v", fn, err)
		}
	}
}

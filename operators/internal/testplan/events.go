package testplan

import (
	"math"
	"math/rand/v2"

	"pgregory.net/rapid"

	"endoscope/operators/batch"
	"endoscope/planner/types"
)

// Events returns a full batch of a stream of function calls, a microsecond apart: t, x
// (random), s (one of 100 names).
func Events(p *batch.Pool, rng *rand.Rand, from int64) *batch.Batch {
	b := p.Get()
	for i := range batch.MaxRows {
		b.AppendRow(types.Time(from+int64(i)*1000), types.Int(rng.Int64N(1000)-500), types.Str(Names[rng.IntN(len(Names))]))
	}
	return b
}

var Names = func() (ns []string) {
	for i := range 100 {
		ns = append(ns, "function_"+string(rune('a'+i/10))+string(rune('a'+i%10)))
	}
	return ns
}()

const EventColumns = "t:timestamp x:bigint s:varchar"

func DrawRow(t *rapid.T, kinds []types.Type) []types.Value {
	vs := make([]types.Value, len(kinds))
	for i, ty := range kinds {
		v := types.Value{Type: ty}
		switch ty {
		case types.Bigint:
			v.I = rapid.SampledFrom([]int64{math.MinInt64, -1, 0, 1, 2, math.MaxInt64}).Draw(t, "i")
		case types.Boolean:
			v.I = rapid.Int64Range(0, 1).Draw(t, "b")
		case types.Double:
			v.F = rapid.SampledFrom([]float64{math.Inf(-1), -2.5, math.Copysign(0, -1), 0, 1, math.Inf(1), math.NaN()}).Draw(t, "f")
		case types.Varchar:
			v.S = rapid.SampledFrom([]string{"", "a", "a\x00", "abcdefgh", "abcdefghi", "abcdefgz", "\xff", "é"}).Draw(t, "s")
		}
		if rapid.IntRange(0, 4).Draw(t, "null") == 0 {
			v = types.NullOf(ty)
		}
		vs[i] = v
	}
	return vs
}

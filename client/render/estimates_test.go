package render

import (
	"bytes"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// TestEstimates: a table shows an estimate with its interval, and an exact value as always;
// other formats have the bounds as columns.
func TestEstimates(t *testing.T) {
	cols := []wire.Column{
		{Name: "n", Type: types.Bigint}, {Name: "d", Type: types.Duration},
		{Name: "low(n)", Type: types.Bigint, Bound: types.Low}, {Name: "high(n)", Type: types.Bigint, Bound: types.High},
		{Name: "low(d)", Type: types.Duration, Bound: types.Low}, {Name: "high(d)", Type: types.Duration, Bound: types.High},
	}
	b := batch.New([]types.Type{types.Bigint, types.Duration, types.Bigint, types.Bigint, types.Duration, types.Duration})
	null := types.NullOf(types.Bigint)
	for _, row := range [][]types.Value{
		{types.Int(1_234_567), types.Dur(5_000), types.Int(1_210_000), types.Int(1_250_000), types.Dur(5_000), null},
		{types.Int(1_234_567), types.Dur(5_000), types.Int(1_234_567), types.Int(1_234_567), null, types.Dur(5_000)},
		{types.Int(12), types.Dur(5_000), types.Int(4), null, null, null},
		{types.Int(0), types.Dur(5_000), types.Int(0), types.Int(30), types.Dur(4_990), types.Dur(5_001)},
		{null, null, null, null, null, null},
	} {
		for c, v := range row {
			b.Cols[c].Append(b.N, v)
		}
		b.N++
	}
	for f, want := range map[Format]string{
		Table: "         n |            d\n" +
			"-----------+--------------\n" +
			" 1.23M ±2% |     >=5.00us\n" +
			"   1234567 |     <=5.00us\n" +
			"       >=4 |      ~5.00us\n" +
			"      <=30 | 5.00us ±0.2%\n" +
			"           |\n",
		CSV: "n,d,low(n),high(n),low(d),high(d)\n" +
			"1234567,5000,1210000,1250000,5000,\n" +
			"1234567,5000,1234567,1234567,,5000\n" +
			"12,5000,4,,,\n" +
			"0,5000,0,30,4990,5001\n" +
			",,,,,\n",
	} {
		var out bytes.Buffer
		r, err := New(f, &out, cols, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Rows(b, false); err != nil {
			t.Fatal(err)
		}
		if err := r.End(); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("%s:\n%s\nwant:\n%s", f, out.String(), want)
		}
	}
}

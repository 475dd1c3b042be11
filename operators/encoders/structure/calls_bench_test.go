package structure

import (
	"testing"

	"endoscope/operators/encoders"
	"endoscope/operators/encoders/internal/enctest"
)

func BenchmarkEncoders(b *testing.B) {
	in := enctest.CallTrace(1e6)
	times := make([]int64, len(in))
	for i := range times {
		times[i] = int64(i) * 100
	}
	a := encoders.NewAlphabet()
	for i := range 300 {
		a.Symbol("function" + string(rune('0'+i)))
	}
	for _, c := range []struct {
		name   string
		create func() encoders.Encoder
	}{
		{"rle", func() encoders.Encoder { return NewRunLengths(a, RLEOptions{}, encoders.Limits{}) }},
		{"callstring", func() encoders.Encoder { return encoders.NewCallStringEncoder(a, encoders.Limits{}) }},
		{"nlevel 2", func() encoders.Encoder { return encoders.NewNLevelEncoder(a, 2, encoders.Limits{}) }},
		{"dag", func() encoders.Encoder { return NewDAGEncoder(a, 0, encoders.Limits{}) }},
		{"grammar", func() encoders.Encoder { return NewGrammarEncoder(a, GrammarOptions{}, encoders.Limits{}) }},
		{"balanced grammar", func() encoders.Encoder {
			return NewGrammarEncoder(a, GrammarOptions{Balance: FullyBalanced}, encoders.Limits{})
		}},
	} {
		for _, timed := range []bool{false, true} {
			name := c.name
			t := times
			if !timed {
				t = nil
			} else {
				name += ", timed"
			}
			b.Run(name, func(b *testing.B) {
				b.ReportAllocs()
				var e encoders.Encoder
				began := enctest.CpuTime()
				for b.Loop() {
					e = c.create()
					for i := 0; i < len(in); i += 1000 {
						if t == nil {
							e.Append(in[i:i+1000], nil)
						} else {
							e.Append(in[i:i+1000], t[i:i+1000])
						}
					}
					e.Encode()
				}
				enctest.ReportRate(b, len(in), began)
				b.ReportMetric(float64(e.Bytes())/1e6, "MB")
			})
		}
	}
}

package encoders

import "testing"

func BenchmarkEncoders(b *testing.B) {
	in := callTrace(1e6)
	times := make([]int64, len(in))
	for i := range times {
		times[i] = int64(i) * 100
	}
	a := NewAlphabet()
	for i := range 300 {
		a.Symbol("function" + string(rune('0'+i)))
	}
	for _, c := range []struct {
		name   string
		create func() Encoder
	}{
		{"rle", func() Encoder { return NewRunLengths(a, RLEOptions{}, Limits{}) }},
		{"callstring", func() Encoder { return NewCallStringEncoder(a, Limits{}) }},
		{"nlevel 2", func() Encoder { return NewNLevelEncoder(a, 2, Limits{}) }},
		{"dag", func() Encoder { return NewDAGEncoder(a, 0, Limits{}) }},
		{"grammar", func() Encoder { return NewGrammarEncoder(a, GrammarOptions{}, Limits{}) }},
		{"balanced grammar", func() Encoder { return NewGrammarEncoder(a, GrammarOptions{Balance: FullyBalanced}, Limits{}) }},
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
				var e Encoder
				began := cpuTime()
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
				reportRate(b, len(in), began)
				b.ReportMetric(float64(e.Bytes())/1e6, "MB")
			})
		}
	}
}

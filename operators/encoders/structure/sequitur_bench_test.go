package structure

import (
	"testing"

	"endoscope/operators/encoders"
	"endoscope/operators/encoders/internal/enctest"
)

func BenchmarkSequitur(b *testing.B) {
	for _, restricted := range []bool{false, true} {
		name := map[bool]string{false: "plain", true: "restricted"}[restricted]
		b.Run(name, func(b *testing.B) {
			in := enctest.CallTrace(1e6)
			b.ReportAllocs()
			var g *sequitur
			began := enctest.CpuTime()
			for b.Loop() {
				g = newSequitur(restricted)
				for _, s := range in {
					g.append(s, 0)
				}
			}
			enctest.ReportRate(b, len(in), began)
			b.ReportMetric(float64(g.bytes())/1e6, "MB")
			b.ReportMetric(float64(len(g.rules)), "rules")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	a := encoders.NewAlphabet()
	for i := range 300 {
		a.Symbol(string(rune('a' + i)))
	}
	e := NewGrammarEncoder(a, GrammarOptions{}, encoders.Limits{})
	e.Append(enctest.CallTrace(1e6), nil)
	g := e.Encode().(*Grammar)
	for b.Loop() {
		if err := encoders.Verify(g); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(1e6*float64(b.N)/b.Elapsed().Seconds()/1e6, "Msymbols/s")
}

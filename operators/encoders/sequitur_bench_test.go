package encoders

import (
	"math/rand/v2"
	"testing"
)

// callTrace is the call string of a made-up program of nested loops over a few
// hundred functions, whose bounds and branches vary a little.
func callTrace(n int) []Symbol {
	random := rand.New(rand.NewPCG(7, 11))
	var s []Symbol
	var call func(f Symbol, depth int)
	call = func(f Symbol, depth int) {
		if len(s) >= n {
			return
		}
		s = append(s, f)
		if depth < 7 {
			loops := 1 + int(f*2654435761>>30)
			if random.IntN(8) == 0 {
				loops += random.IntN(3)
			}
			for i := range loops {
				for j := range 1 + f%3 {
					if random.IntN(20) == 0 {
						continue
					}
					call(1+(f*7+j*13+uint32(i%2))%300, depth+1)
				}
			}
		}
		s = append(s, Return)
	}
	for f := uint32(1); len(s) < n; f = f*31%300 + 1 {
		call(f, 0)
	}
	return s[:n]
}

func BenchmarkSequitur(b *testing.B) {
	for _, restricted := range []bool{false, true} {
		name := map[bool]string{false: "plain", true: "restricted"}[restricted]
		b.Run(name, func(b *testing.B) {
			in := callTrace(1e6)
			b.ReportAllocs()
			var g *sequitur
			began := cpuTime()
			for b.Loop() {
				g = newSequitur(restricted)
				for _, s := range in {
					g.append(s, 0)
				}
			}
			reportRate(b, len(in), began)
			b.ReportMetric(float64(g.bytes())/1e6, "MB")
			b.ReportMetric(float64(len(g.rules)), "rules")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	a := NewAlphabet()
	for i := range 300 {
		a.Symbol(string(rune('a' + i)))
	}
	e := NewGrammarEncoder(a, GrammarOptions{}, Limits{})
	e.Append(callTrace(1e6), nil)
	g := e.Encode().(*Grammar)
	for b.Loop() {
		if err := Verify(g); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(1e6*float64(b.N)/b.Elapsed().Seconds()/1e6, "Msymbols/s")
}

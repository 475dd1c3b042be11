package encoders_test

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/encoders"
	"endoscope/operators/encoders/internal/enctest"
)

func phases(t interface{ Helper() }) *encoders.InvocationGraph {
	t.Helper()
	a := encoders.NewAlphabet()
	for _, n := range []string{"main", "parse", "solve", "print \"x\"", "log"} {
		a.Symbol(n)
	}
	random := rand.New(rand.NewPCG(1, 2))
	e := encoders.NewInvocationEncoder(a, encoders.Limits{})
	at := int64(1e18)
	for phase, s := range [][]encoders.Symbol{{1}, {2, 2, 2, 5}, {3, 3, 3, 3, 3}, {4, 5}} {
		for range []int{1, 300, 900, 200}[phase] {
			at += random.Int64N(2_000_000)
			e.Append([]encoders.Symbol{s[random.IntN(len(s))]}, []int64{at})
		}
	}
	return e.Encode().(*encoders.InvocationGraph)
}

func TestPicturesOfAnInvocationGraph(t *testing.T) {
	g := phases(t)
	enctest.CheckGolden(t, "invocations.txt", g.String()+"\n")
	enctest.CheckGolden(t, "invocations.svg", g.SVG())
	if err := enctest.CheckSVG(g.SVG()); err != nil {
		t.Error(err)
	}
	text, svg := g.Zoom(g.Slots()/2, g.Slots())
	enctest.CheckGolden(t, "invocations-zoom.txt", text+"\n")
	if err := enctest.CheckSVG(svg); err != nil {
		t.Error(err)
	}
	empty := encoders.NewInvocationEncoder(encoders.NewAlphabet(), encoders.Limits{}).Encode().(*encoders.InvocationGraph)
	if err := enctest.CheckSVG(empty.SVG()); err != nil || empty.String() != "nothing" {
		t.Errorf("of nothing: %v, %s", err, empty)
	}
}

// Each occurrence is in the slot of its time, however the times came and were
// merged, and the slots span what they must and hardly more.
func TestInvocationSlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := enctest.LettersUpTo(3)
		base := rapid.Int64Range(-1e12, 1e18).Draw(t, "base")
		reach := rapid.SampledFrom([]int64{10, 1e6, 1e13}).Draw(t, "reach")
		type occurrence struct {
			s encoders.Symbol
			t int64
		}
		var all []occurrence
		var parts []encoders.Encoding
		for range rapid.IntRange(1, 3).Draw(t, "sequences") {
			e := encoders.NewInvocationEncoder(a, encoders.Limits{})
			for range rapid.IntRange(1, 60).Draw(t, "n") {
				o := occurrence{rapid.Uint32Range(1, 3).Draw(t, "symbol"), base + rapid.Int64Range(0, reach).Draw(t, "at")}
				all = append(all, o)
				e.Append([]encoders.Symbol{o.s}, []int64{o.t})
			}
			parts = append(parts, e.Encode())
		}
		m, err := parts[0].(*encoders.InvocationGraph).Merge(parts[1:])
		if err != nil {
			t.Fatal(err)
		}
		g := m.(*encoders.InvocationGraph)
		want := map[[2]int64]int64{}
		low, high := all[0].t, all[0].t
		for _, o := range all {
			want[[2]int64{int64(o.s), (o.t - g.Start()) / g.Width()}]++
			low, high = min(low, o.t), max(high, o.t)
		}
		var sum int64
		for s := range encoders.Symbol(4) {
			for i := range g.Slots() {
				n := g.Count(s, i)
				sum += n
				if n != want[[2]int64{int64(s), int64(i)}] {
					t.Fatalf("symbol %d, slot %d: %d, want %d", s, i, n, want[[2]int64{int64(s), int64(i)}])
				}
			}
		}
		if sum != int64(len(all)) || g.Start() > low || g.Start()+int64(g.Slots())*g.Width() <= high || g.Slots() > encoders.InvocationSlots {
			t.Fatalf("%d of %d occurrences in %d slots", sum, len(all), g.Slots())
		}
		if g.Width() > 1<<encoders.FirstWidth && (high-low)/g.Width() < encoders.InvocationSlots/2-2 {
			t.Fatalf("%d slots of %d for %d ns", g.Slots(), g.Width(), high-low)
		}
	})
}

func BenchmarkInvocations(b *testing.B) {
	in := enctest.CallTrace(1e6)
	times := make([]int64, len(in))
	for i := range times {
		times[i] = int64(i) * 700
	}
	a := encoders.NewAlphabet()
	for i := range 300 {
		a.Symbol(string(rune(0x4e00 + i)))
	}
	for b.Loop() {
		e := encoders.NewInvocationEncoder(a, encoders.Limits{})
		e.Append(in, times)
		e.Encode()
	}
	b.ReportMetric(float64(len(in))*float64(b.N)/b.Elapsed().Seconds()/1e6, "Msymbols/s")
}

// Names in the picture are text, whatever they are.
func TestInvocationGraphOfHostileNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := encoders.NewAlphabet()
		e := encoders.NewInvocationEncoder(a, encoders.Limits{})
		for i, name := range rapid.SliceOfN(rapid.String(), 1, 5).Draw(t, "names") {
			e.Append([]encoders.Symbol{a.Symbol(name)}, []int64{int64(i) * 1e6})
		}
		g := e.Encode().(*encoders.InvocationGraph)
		if err := enctest.CheckSVG(g.SVG()); err != nil {
			t.Fatal(err)
		}
	})
}

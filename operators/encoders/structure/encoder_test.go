package structure

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/encoders"
	"endoscope/operators/encoders/internal/enctest"
)

// lossless are the encoders whose encodings can be decoded.
var lossless = map[string]func(a *encoders.Alphabet, l encoders.Limits) encoders.Encoder{
	"rle": func(a *encoders.Alphabet, l encoders.Limits) encoders.Encoder {
		return NewRunLengths(a, RLEOptions{}, l)
	},
	"grammar": func(a *encoders.Alphabet, l encoders.Limits) encoders.Encoder {
		return NewGrammarEncoder(a, GrammarOptions{}, l)
	},
	"grammar rle": func(a *encoders.Alphabet, l encoders.Limits) encoders.Encoder {
		return NewGrammarEncoder(a, GrammarOptions{Runs: true}, l)
	},
	"restricted": func(a *encoders.Alphabet, l encoders.Limits) encoders.Encoder {
		return NewGrammarEncoder(a, GrammarOptions{Balance: Restricted}, l)
	},
	"restricted rle": func(a *encoders.Alphabet, l encoders.Limits) encoders.Encoder {
		return NewGrammarEncoder(a, GrammarOptions{Balance: Restricted, Runs: true}, l)
	},
	"callstring": func(a *encoders.Alphabet, l encoders.Limits) encoders.Encoder {
		return encoders.NewCallStringEncoder(a, l)
	},
	"dag": func(a *encoders.Alphabet, l encoders.Limits) encoders.Encoder { return NewDAGEncoder(a, 0, l) },
	"balanced grammar": func(a *encoders.Alphabet, l encoders.Limits) encoders.Encoder {
		return NewGrammarEncoder(a, GrammarOptions{Balance: FullyBalanced}, l)
	},
}

// feed appends in in pieces, with times if timed.
func feed(t *rapid.T, e encoders.Encoder, in []encoders.Symbol, timed bool) {
	for i := 0; i < len(in); {
		n := rapid.IntRange(1, len(in)-i).Draw(t, "piece")
		var times []int64
		if timed {
			for j := range n {
				times = append(times, int64(i+j)*1000)
			}
		}
		e.Append(in[i:i+n], times)
		i += n
	}
}

func decoded(e encoders.Lossless, i int) []encoders.Symbol { return slices.Collect(e.Decode(i)) }

func TestDecode(t *testing.T) {
	for name, create := range lossless {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			a := enctest.Letters()
			in := sequence(t)
			timed := rapid.Bool().Draw(t, "timed")
			e := create(a, encoders.Limits{})
			feed(t, e, in, timed)
			enc := e.Encode().(encoders.Lossless)
			if !slices.Equal(decoded(enc, 0), in) {
				t.Fatalf("%s\ndecodes to %v, not %v", enc, decoded(enc, 0), in)
			}
			if err := encoders.Verify(enc); err != nil {
				t.Fatal(err)
			}
			// In one piece it is the same; and it does not change any more.
			text := enc.String()
			once := create(a, encoders.Limits{})
			feed(t, once, in, timed)
			feed(t, e, in, timed)
			if got := once.Encode().String(); got != text || enc.String() != text {
				t.Fatalf("in one piece:\n%s\nin several:\n%s\nlater:\n%s", got, text, enc)
			}
			if _, err := enc.MarshalJSON(); err != nil {
				t.Fatal(err)
			}
		}))
	}
}

// A merge decodes to each of the sequences, also when they have different
// alphabets, and does not depend on how it is put together.
func TestMerge(t *testing.T) {
	for name, create := range lossless {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			var inputs [][]string
			var parts []encoders.Encoding
			for range rapid.IntRange(1, 5).Draw(t, "sequences") {
				a := enctest.Letters()
				if rapid.Bool().Draw(t, "reversed") {
					a = encoders.NewAlphabet()
					for _, c := range "FEDCBA" {
						a.Symbol(string(c))
					}
				}
				in := sequence(t)
				e := create(a, encoders.Limits{})
				feed(t, e, in, false)
				parts = append(parts, e.Encode())
				var named []string
				for _, s := range in {
					named = append(named, a.Names()[s])
				}
				inputs = append(inputs, named)
			}
			merged, err := parts[0].(encoders.Mergeable).Merge(parts[1:])
			if err != nil {
				t.Fatal(err)
			}
			m := merged.(encoders.Lossless)
			if m.Of().Sequences != len(inputs) {
				t.Fatalf("%d sequences", m.Of().Sequences)
			}
			for i, want := range inputs {
				var got []string
				for s := range m.Decode(i) {
					got = append(got, m.Names()[s])
				}
				if !slices.Equal(got, want) {
					t.Fatalf("sequence %d is %v, not %v", i, got, want)
				}
			}
			if err := encoders.Verify(m); err != nil {
				t.Fatal(err)
			}
			var stepwise encoders.Encoding = parts[0]
			for _, p := range parts[1:] {
				if stepwise, err = stepwise.(encoders.Mergeable).Merge([]encoders.Encoding{p}); err != nil {
					t.Fatal(err)
				}
			}
			if stepwise.String() != m.String() {
				t.Fatalf("step by step:\n%s\nat once:\n%s", stepwise, m)
			}
		}))
	}
}

// Over the budget the prefix is kept, and the encoding reports it.
func TestBudget(t *testing.T) {
	for name, create := range lossless {
		in := adversaries["de Bruijn"](1 << 16)
		e := create(enctest.Letters(), encoders.Limits{Budget: 20_000})
		for i := 0; i < len(in); i += 1000 {
			e.Append(in[i:min(i+1000, len(in))], nil)
		}
		enc := e.Encode().(encoders.Lossless)
		of := enc.Of()
		if of.Complete() || of.Symbols != int64(len(in)) || of.Encoded < 1000 {
			t.Errorf("%s: %d of %d symbols encoded", name, of.Encoded, of.Symbols)
		}
		if err := encoders.Verify(enc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Equal(decoded(enc, 0), in[:of.Encoded]) {
			t.Errorf("%s does not decode to the prefix", name)
		}
		if held := e.Bytes(); held > 120_000 {
			t.Errorf("%s holds %d bytes", name, held)
		}
		if !strings.Contains(enc.String(), "\n-- the first ") {
			t.Errorf("%s does not say that it is a prefix", name)
		}
	}
}

// Verify must detect a wrong encoding.
func TestVerify(t *testing.T) {
	a := enctest.Letters()
	e := NewRunLengths(a, RLEOptions{}, encoders.Limits{})
	e.Append([]encoders.Symbol{1, 1, 2, 0}, nil)
	for _, spoil := range []func(r []Run){
		func(r []Run) { r[0].N++ },
		func(r []Run) { r[1].Symbol = 3 },
		func(r []Run) { r[0], r[2] = r[2], r[0] },
	} {
		enc := e.Encode().(*RLE)
		if err := encoders.Verify(enc); err != nil {
			t.Fatal(err)
		}
		spoil(enc.runs)
		if encoders.Verify(enc) == nil {
			t.Errorf("%s passes for A A B <", enc)
		}
	}
}

// For all options: the number of occurrences of each rule is correct, and its time
// is that of the symbols that it replaces, if all of its occurrences were timed.
func TestGrammarStatistics(t *testing.T) {
	complete, all := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		in := sequence(t)
		o := GrammarOptions{Balance: Balance(rapid.IntRange(0, 2).Draw(t, "balance")), Runs: rapid.Bool().Draw(t, "rle")}
		e := NewGrammarEncoder(enctest.Letters(), o, encoders.Limits{})
		feed(t, e, in, true) // symbol i takes 1000·i ns
		g := e.Encode().(*Grammar)
		want := make([]encoders.Stats, g.Rules())
		at := int64(0)
		var visit func(p int) int64
		visit = func(p int) (took int64) {
			for _, it := range g.rightSide(p) {
				for range it.n {
					if isRule(it.value) {
						took += visit(int(it.value &^ ruleBit))
						continue
					}
					took += at * 1000
					at++
				}
			}
			want[p].Add(took)
			return took
		}
		visit(0)
		for p := 1; p < len(want); p++ {
			got := g.stats[p]
			all++
			if got.Count != want[p].Count || got.Timed == 0 || got.Timed > got.Count {
				t.Fatalf("%s\nproduction %d occurs %d times: %+v", g, p, want[p].Count, got)
			}
			if got.Timed == got.Count {
				complete++
				if got != want[p] {
					t.Fatalf("%s\nproduction %d: %+v, want %+v", g, p, got, want[p])
				}
			}
		}
		var timed int64
		for _, s := range g.symbols {
			timed += s.Count
		}
		if timed != int64(len(in)) {
			t.Fatalf("%d symbols timed", timed)
		}
	})
	if 2*complete < all {
		t.Errorf("only %d of %d rules were timed completely", complete, all)
	}
}

// Every rule of a fully balanced grammar returns from what it calls.
func TestFullyBalanced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := NewGrammarEncoder(enctest.Letters(), GrammarOptions{Balance: FullyBalanced}, encoders.Limits{})
		feed(t, e, sequence(t), false)
		g := e.Encode().(*Grammar)
		for p := g.starts; p < len(g.ends); p++ {
			depth := 0
			g.derive(p, func(s encoders.Symbol) bool {
				if s == encoders.Return {
					depth--
				} else {
					depth++
				}
				return depth >= 0
			})
			if depth != 0 {
				t.Fatalf("%s\nproduction %d ends at depth %d", g, p, depth)
			}
		}
	})
}

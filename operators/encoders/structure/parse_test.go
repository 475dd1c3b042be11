package structure

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/encoders"
)

// The text form of an encoding can be parsed, whatever the names of tokens are. It
// contains everything but the statistics.
func TestParse(t *testing.T) {
	names := []string{"A", "R0", "S1", "<", "3:B", "B*", "->", "a b", `"`, "--", "-- x", "", "naïve", "\n", "END", "*", "1:"}
	rapid.Check(t, func(t *rapid.T) {
		a := encoders.NewAlphabet()
		var symbols []encoders.Symbol
		for range 5 {
			symbols = append(symbols, a.Function(rapid.OneOf(rapid.SampledFrom(names), rapid.String()).Draw(t, "name")))
		}
		kinds := map[string]func() encoders.Encoder{
			"rle":        func() encoders.Encoder { return NewRunLengths(a, RLEOptions{}, encoders.Limits{}) },
			"rle 2":      func() encoders.Encoder { return NewRunLengths(a, RLEOptions{Cutoff: 2}, encoders.Limits{}) },
			"rle groups": func() encoders.Encoder { return NewRunLengths(a, RLEOptions{Groups: 5}, encoders.Limits{}) },
			"grammar":    func() encoders.Encoder { return NewGrammarEncoder(a, GrammarOptions{}, encoders.Limits{}) },
			"balanced": func() encoders.Encoder {
				return NewGrammarEncoder(a, GrammarOptions{Balance: FullyBalanced}, encoders.Limits{})
			},
			"balanced 2": func() encoders.Encoder {
				return NewGrammarEncoder(a, GrammarOptions{Balance: FullyBalanced, Cutoff: 2}, encoders.Limits{})
			},
			"dag": func() encoders.Encoder { return NewDAGEncoder(a, 0, encoders.Limits{}) },
		}
		kind := rapid.SampledFrom([]string{"rle", "rle 2", "rle groups", "grammar", "balanced", "balanced 2", "dag"}).Draw(t, "kind")
		var parts []encoders.Encoding
		for range rapid.IntRange(1, 3).Draw(t, "sequences") {
			e := kinds[kind]()
			for _, s := range sequence(t) {
				if s != encoders.Return {
					s = symbols[s%5]
				}
				e.Append([]encoders.Symbol{s}, nil)
			}
			parts = append(parts, e.Encode())
		}
		merged, err := parts[0].(encoders.Mergeable).Merge(parts[1:])
		if err != nil {
			t.Fatal(err)
		}
		want := merged.(encoders.Lossless)
		var got encoders.Lossless
		if strings.HasPrefix(kind, "rle") {
			got, err = ParseRLE(want.String())
		} else {
			got, err = ParseGrammar(want.String())
		}
		if err != nil {
			t.Fatalf("%s\n%v", want, err)
		}
		if got.String() != want.String() || got.Of().Sequences != len(parts) {
			t.Fatalf("%s\nis read as\n%s", want, got)
		}
		if !want.Exact() || !got.Exact() {
			return
		}
		for i := range parts {
			in, out := decoded(want, i), decoded(got, i)
			if len(in) != len(out) {
				t.Fatalf("%s\nsequence %d has %d symbols, not %d", want, i, len(out), len(in))
			}
			for j := range in {
				if want.Names()[in[j]] != got.Names()[out[j]] || (in[j] == encoders.Return) != (out[j] == encoders.Return) {
					t.Fatalf("%s\nsequence %d differs at %d", want, i, j)
				}
			}
		}
	})
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "line 1 is no rule: R1 -> A B",
		"R0 A":                           "line 1 is no rule: R1 -> A B",
		"R1 -> A":                        "a grammar begins with a rule R0",
		"R0 -> R1":                       "line 1: there is no rule R1",
		"R0 -> R0":                       "line 1: there is no rule R0",
		"R0 -> R1\nR1 -> A R1":           "a rule uses itself",
		"R0 -> R1\nR1 -> R2\nR2 -> B R1": "a rule uses itself",
		"R0 -> A\nR0 -> B":               "line 2: R0 is there twice",
		`R0 -> "A`:                       `line 1: a quote is not closed: "A`,
		`R0 -> "A"B`:                     "line 1: a space is missing before B",
		"R0 -> 0:A":                      "line 1: 0 is no number of times",
		"R0 -> 3: A":                     "line 1: a name is missing",
		"R0 -> 99999999999999999999:A":   "line 1: 99999999999999999999 is no number of times",
	} {
		if _, err := ParseGrammar(text); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, err := ParseRLE("A R1"); err == nil {
		t.Error("runs have no rules")
	}
}

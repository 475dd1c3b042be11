package structure

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/encoders"
	"endoscope/operators/encoders/internal/enctest"
)

// check checks sequences against a model. A sequence that ends with "..." was
// cut.
func check(t fataler, m *Model, o ConformanceOptions, sequences ...string) *Conformance {
	t.Helper()
	a := encoders.NewAlphabet()
	a.Symbol("not in the model") // so that symbols differ from the model's
	var all []encoders.Encoding
	for _, s := range sequences {
		e, err := NewConformanceEncoder(a, m, o, encoders.Limits{})
		if err != nil {
			t.Fatalf("%v", err)
		}
		words := strings.Fields(s)
		if n := len(words); n > 0 && words[n-1] == "..." {
			words = words[:n-1]
			e.Truncate()
		}
		for _, w := range words {
			e.Append([]encoders.Symbol{a.Symbol(w)}, nil)
		}
		all = append(all, e.Encode())
	}
	c, err := all[0].(*Conformance).Merge(all[1:])
	if err != nil {
		t.Fatalf("%v", err)
	}
	return c.(*Conformance)
}

func modelOf(t fataler, e encoders.Encoding) *Model {
	t.Helper()
	m, err := NewModel(e)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return m
}

// stored is m after it was stored and loaded.
func storedAgain(t fataler, m *Model) *Model {
	t.Helper()
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatalf("%v", err)
	}
	var back Model
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	return &back
}

func TestConformance(t *testing.T) {
	files := automatonOf(t, AutomatonOptions{K: 3}, "open read read read close", "open write close", "open seek read close")
	a := encoders.NewAlphabet()
	e := NewGrammarEncoder(a, GrammarOptions{Runs: true, Cutoff: 2}, encoders.Limits{})
	for _, w := range strings.Fields("open read read read read close") {
		e.Append([]encoders.Symbol{a.Symbol(w)}, nil)
	}
	for _, c := range []struct {
		model    encoders.Encoding
		options  ConformanceOptions
		sequence string
		want     string
	}{
		{files, ConformanceOptions{}, "open read close", "conforms"},
		{files, ConformanceOptions{}, "open read read read read read close", "conforms"},
		{files, ConformanceOptions{}, "open close", "close at symbol 2, expected read or write or seek"},
		{files, ConformanceOptions{}, "open truncate close", "truncate at symbol 2, expected read or write or seek"},
		{files, ConformanceOptions{}, "open read", "the end after 2 symbols, expected read or close"},
		{files, ConformanceOptions{Open: true}, "open read", "conforms"},
		{files, ConformanceOptions{}, "open read ...", "conforms"},
		{files, ConformanceOptions{}, "read close", "read at symbol 1, expected open"},
		{files, ConformanceOptions{Anywhere: true}, "read close", "conforms"},
		{files, ConformanceOptions{Anywhere: true}, "close open", "open at symbol 2, expected ⊣"},
		{files, ConformanceOptions{}, "", "the end after 0 symbols, expected open"},
		{e.Encode(), ConformanceOptions{}, "open read read read close", "conforms"},
		{e.Encode(), ConformanceOptions{}, "open read read read read read read close", "conforms"},
		{e.Encode(), ConformanceOptions{}, "open read read close", "close at symbol 4, expected read"},
		{e.Encode(), ConformanceOptions{}, "open read read read", "the end after 4 symbols, expected read or close"},
		{e.Encode(), ConformanceOptions{}, "open read read read close close", "close at symbol 6, expected ⊣"},
	} {
		for _, m := range []*Model{modelOf(t, c.model), storedAgain(t, modelOf(t, c.model))} {
			if got := check(t, m, c.options, c.sequence).String(); got != c.want {
				t.Errorf("%s: %s: %q: %s\nwant %s", m.Kind(), m.Size(), c.sequence, got, c.want)
			}
		}
	}
	several := check(t, modelOf(t, files), ConformanceOptions{}, "open read close", "open open", "close", "open write close")
	want := "2 of 4 sequences leave the model, first sequence 2: open at symbol 2, expected read or write or seek"
	if got := several.String(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if _, err := NewConformanceEncoder(a, modelOf(t, e.Encode()), ConformanceOptions{Anywhere: true}, encoders.Limits{}); err == nil {
		t.Error("a grammar is no model of the middle of a sequence")
	}
	if _, err := NewModel(&encoders.Loops{}); err == nil {
		t.Error("loops are no model")
	}
}

// A sequence that is known to have ended must be complete, even if other sequences
// continue.
func TestConformanceOfWhatHasEnded(t *testing.T) {
	m := modelOf(t, automatonOf(t, AutomatonOptions{K: 3}, "open read close"))
	a := encoders.NewAlphabet()
	for sequence, want := range map[string]string{
		"open read close": "conforms",
		"open read":       "the end after 2 symbols, expected close",
		"open open":       "open at symbol 2, expected read",
	} {
		e, _ := NewConformanceEncoder(a, m, ConformanceOptions{Open: true}, encoders.Limits{})
		e.Label("it")
		for _, w := range strings.Fields(sequence) {
			e.Append([]encoders.Symbol{a.Symbol(w)}, nil)
		}
		e.Finish()
		c := e.Encode().(*Conformance)
		if got := c.String(); got != want {
			t.Errorf("%s: %s, want %s", sequence, got, want)
		}
		if d := c.Departure(); d != nil && d.Label != "it" {
			t.Errorf("it is called %q", d.Label)
		}
	}
}

// A function called "<" is no return, and neither is taken for the other.
func TestConformanceTellsReturnsFromFunctions(t *testing.T) {
	a := encoders.NewAlphabet()
	e, _ := NewAutomatonEncoder(a, AutomatonOptions{K: 3}, encoders.Limits{})
	e.Append([]encoders.Symbol{a.Function("f"), a.Function("<"), encoders.Return, encoders.Return}, nil)
	m := storedAgain(t, modelOf(t, e.Encode()))
	for want, s := range map[string][]string{"conforms": {"f", "<", "", ""}, `< at symbol 2, expected "<"`: {"f", "", "", ""}, `"<" at symbol 3, expected <`: {"f", "<", "<", ""}} {
		b := encoders.NewAlphabet()
		c, _ := NewConformanceEncoder(b, m, ConformanceOptions{}, encoders.Limits{})
		for _, f := range s {
			x := encoders.Return
			if f != "" {
				x = b.Function(f)
			}
			c.Append([]encoders.Symbol{x}, nil)
		}
		if got := c.Encode().String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// The sequences that a model was made from conform to it. A sequence that an
// automaton refuses leaves it at the first symbol without an arc.
func TestConformanceToAutomata(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sequences := randomSequences(3).Draw(t, "sequences")
		a := automatonOf(t, randomOptions(t), sequences...)
		m := storedAgain(t, modelOf(t, a))
		if c := check(t, m, ConformanceOptions{}, sequences...); !c.Conforms() {
			t.Fatalf("%s\n%s", c, a)
		}
		if m.Encoding().String() != a.String() {
			t.Fatalf("stored:\n%s\nmade:\n%s", m.Encoding(), a)
		}
		for _, other := range randomSequences(3).Draw(t, "others") {
			c := check(t, m, ConformanceOptions{}, other)
			if err := a.accepts(other); (err == nil) != c.Conforms() {
				t.Fatalf("%q: %s, %v\n%s", other, c, err, a)
			}
			if d := c.Departure(); d != nil {
				before := strings.Join(strings.Fields(other)[:d.Position], " ")
				if err := a.accepts(before + " ..."); err != nil {
					t.Fatalf("%q leaves at %d: %v", other, d.Position, err)
				}
			}
		}
	})
}

// expression is the language of g as a regular expression over letters.
func (g *Grammar) expression() string {
	var of func(p int) string
	of = func(p int) string {
		var b strings.Builder
		for _, it := range g.rightSide(p) {
			text := ""
			if isRule(it.value) {
				text = "(?:" + of(int(it.value&^ruleBit)) + ")"
			} else {
				text = g.names[it.value]
			}
			if it.n == 0 {
				fmt.Fprintf(&b, "%s{%d,}", text, g.options.Cutoff+1)
			} else {
				fmt.Fprintf(&b, "%s{%d}", text, it.n)
			}
		}
		return b.String()
	}
	var starts []string
	for p := range g.starts {
		starts = append(starts, of(p))
	}
	return "^(?:" + strings.Join(starts, "|") + ")$"
}

func TestConformanceToGrammars(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := enctest.LettersUpTo(3)
		o := GrammarOptions{Runs: rapid.Bool().Draw(t, "runs")}
		if o.Runs {
			o.Cutoff = rapid.IntRange(0, 3).Draw(t, "cutoff")
		}
		draw := func() []encoders.Symbol {
			var s []encoders.Symbol
			for range rapid.IntRange(0, 6).Draw(t, "parts") {
				part := rapid.SliceOfN(rapid.Uint32Range(1, 3), 1, 3).Draw(t, "part")
				for range rapid.IntRange(1, 6).Draw(t, "times") {
					s = append(s, part...)
				}
			}
			return s
		}
		var parts []encoders.Encoding
		var read [][]encoders.Symbol
		for range rapid.IntRange(1, 3).Draw(t, "sequences") {
			e := NewGrammarEncoder(a, o, encoders.Limits{})
			s := draw()
			e.Append(s, nil)
			parts, read = append(parts, e.Encode()), append(read, s)
		}
		merged, err := parts[0].(*Grammar).Merge(parts[1:])
		if err != nil {
			t.Fatal(err)
		}
		g := merged.(*Grammar)
		m := storedAgain(t, modelOf(t, g))
		language := regexp.MustCompile(g.expression())
		for i := range 6 {
			s := draw()
			if i < len(read) {
				s = read[i]
			} else if i < 2*len(read) { // similar to one of them
				s = append([]encoders.Symbol{}, read[i-len(read)]...)
				if len(s) > 0 {
					at := rapid.IntRange(0, len(s)-1).Draw(t, "at")
					s = append(s[:at], append([]encoders.Symbol{s[at]}, s[at:]...)...)
				}
			}
			e, _ := NewConformanceEncoder(a, m, ConformanceOptions{}, encoders.Limits{})
			e.Append(s, nil)
			c := e.Encode().(*Conformance)
			text := ""
			for _, x := range s {
				text += a.Names()[x]
			}
			if want := language.MatchString(text); c.Conforms() != want || i < len(read) && !want {
				t.Fatalf("%s: %s, want %v\n%s", text, c, want, g)
			}
		}
	})
}

// A damaged model is refused or is a valid model; it never crashes the program.
func TestDamagedModels(t *testing.T) {
	a := encoders.NewAlphabet()
	e := NewGrammarEncoder(a, GrammarOptions{Runs: true, Cutoff: 2}, encoders.Limits{})
	e.Append([]encoders.Symbol{a.Symbol("x"), a.Symbol("y"), 1, 2, 1, 2, 1, 1, 1, 1}, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 1})
	grammar, _ := json.Marshal(modelOf(t, e.Encode()))
	automaton, _ := json.Marshal(modelOf(t, runningExample(t)))
	for _, text := range []string{"", "{}", "[]", `{"endoscope_model":2}`, `{"endoscope_model":1,"names":["<"]}`,
		`{"endoscope_model":1,"names":["<"],"grammar":{"starts":1,"rules":[[[1073741825,1]],[[1073741825,1]]],"stats":[[0,0,0,0,0],[0,0,0,0,0]]}}`} {
		var m Model
		if err := json.Unmarshal([]byte(text), &m); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		data := bytes.Clone(rapid.SampledFrom([][]byte{grammar, automaton}).Draw(t, "model"))
		for range rapid.IntRange(1, 3).Draw(t, "times") {
			at := rapid.IntRange(0, len(data)-1).Draw(t, "at")
			data[at] = rapid.SampledFrom([]byte("0123456789-,[]{}\":.xe")).Draw(t, "byte")
		}
		var m Model
		if json.Unmarshal(data, &m) != nil {
			return
		}
		_ = m.Encoding().String()
		if x, _ := m.Encoding().MarshalJSON(); !json.Valid(x) {
			t.Fatalf("%s", x)
		}
		check(t, &m, ConformanceOptions{}, "A B B C D C", "x y y y")
	})
}

func BenchmarkConformance(b *testing.B) {
	names := encoders.NewAlphabet()
	for i := range 300 {
		names.Symbol(fmt.Sprint("f", i+1))
	}
	in := enctest.CallTrace(1e6)
	e, _ := NewAutomatonEncoder(names, AutomatonOptions{K: 2}, encoders.Limits{})
	e.Append(in, nil)
	m := modelOf(b, e.Encode())
	b.ReportAllocs()
	for b.Loop() {
		c, _ := NewConformanceEncoder(names, m, ConformanceOptions{}, encoders.Limits{})
		c.Append(in, nil)
		if !c.Encode().(*Conformance).Conforms() {
			b.Fatal("it was made of this")
		}
	}
	b.ReportMetric(float64(len(in))*float64(b.N)/b.Elapsed().Seconds()/1e6, "Msymbols/s")
}

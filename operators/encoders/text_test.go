package encoders_test

import (
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/encoders"
)

func TestQuote(t *testing.T) {
	for token, want := range map[string]string{
		"A": `A`, "main.(*Server).handle": `main.(*Server).handle`, "std::vector<int>::push_back": `std::vector<int>::push_back`,
		"Rx": `Rx`, "R": `R`, "S": `S`, "R2D2": `R2D2`, "42": `42`, "x:3": `x:3`, "naïve": `naïve`, "<init>": `<init>`,
		"f(int, char)": `"f(int, char)"`, "R0": `"R0"`, "S12": `"S12"`, "3:B": `"3:B"`, "3:": `"3:"`, "B*": `"B*"`, "*": `"*"`,
		"->": `"->"`, "<": `"<"`, "⊣": `"⊣"`, "END": `END`, "--": `"--"`, "(": `"("`, "": `""`, "a\tb": `"a\tb"`, `say "x"`: `"say \"x\""`,
		"\xff": `"\xff"`, "a\nb": `"a\nb"`,
	} {
		if got := encoders.Quote(token); got != want {
			t.Errorf("Quote(%q) = %s, want %s", token, got, want)
		}
	}
}

func TestQuotedTokensAreOneWordOrAString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		token := rapid.String().Draw(t, "token")
		q := encoders.Quote(token)
		if q == token {
			if strings.ContainsAny(q, " \n\t\"") || q == "" {
				t.Fatalf("%q needs quotes", token)
			}
		} else if back, err := strconv.Unquote(q); err != nil || back != token {
			t.Fatalf("%s means %q, not %q", q, back, token)
		}
	})
}

func TestAlphabet(t *testing.T) {
	a := encoders.NewAlphabet()
	if a.Symbol("<") != encoders.Return {
		t.Error("the token < is a return")
	}
	less := a.Function("<")
	if less == encoders.Return || a.Function("<") != less || a.Names()[less] != "<" {
		t.Error("a function called < is not a return")
	}
	x := a.Symbol("x")
	if a.Function("x") != x || a.Symbol("x") != x || a.Symbol("y") == x {
		t.Error("a name has one symbol")
	}
	names := a.Names()
	b := encoders.NewAlphabet()
	b.Symbol("y")
	tr := b.Translate(names)
	for s, name := range names {
		if got := b.Names()[tr[s]]; got != name || (tr[s] == encoders.Return) != (s == int(encoders.Return)) {
			t.Errorf("symbol %d, %s, becomes %d, %s", s, name, tr[s], got)
		}
	}
	if string(encoders.AppendName(nil, names, encoders.Return)) != "<" || string(encoders.AppendName(nil, names, less)) != `"<"` {
		t.Error("a return and a function called < must look different")
	}
}

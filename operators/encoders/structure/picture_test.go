package structure

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/encoders"
	"endoscope/operators/encoders/internal/enctest"
	"endoscope/operators/encoders/render"
)

func runningExample(t *testing.T) *Automaton {
	return automatonOf(t, AutomatonOptions{K: 3}, "A B B B B B B B B B C D D D B C D C")
}

func TestPicturesOfAnAutomaton(t *testing.T) {
	a := runningExample(t)
	enctest.CheckGolden(t, "automaton.dot", a.Dot())
	enctest.CheckGolden(t, "automaton.mermaid", a.Mermaid())
	enctest.CheckGolden(t, "automaton.svg", a.SVG())
	basic := automatonOf(t, AutomatonOptions{K: 3, NoLoops: true}, "A B B B B B B B B B C D D D B C D C")
	enctest.CheckGolden(t, "automaton-basic.svg", basic.SVG())
	if err := enctest.CheckSVG(a.SVG()); err != nil {
		t.Error(err)
	}
}

// Whatever the names of symbols are: the SVG is valid, with every name as its
// text, and no name breaks a line of dot or Mermaid.
func TestPicturesOfHostileNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.StringN(0, 20, 30), 1, 4).Draw(t, "names")
		alphabet := encoders.NewAlphabet()
		e, _ := NewAutomatonEncoder(alphabet, AutomatonOptions{K: 2}, encoders.Limits{})
		for _, n := range names {
			e.Append([]encoders.Symbol{alphabet.Symbol(n)}, []int64{1500})
		}
		a := e.Encode().(*Automaton)
		if err := enctest.CheckSVG(a.SVG()); err != nil {
			t.Fatal(err)
		}
		for _, l := range strings.Split(strings.TrimSpace(a.Dot()), "\n")[1:] {
			quoted := strings.Count(strings.ReplaceAll(strings.ReplaceAll(l, `\\`, ""), `\"`, ""), `"`)
			if quoted%2 != 0 || !strings.HasPrefix(l, "  ") && l != "}" {
				t.Fatalf("dot: %s", l)
			}
		}
		for _, l := range strings.Split(strings.TrimSpace(a.Mermaid()), "\n")[1:] {
			if strings.Count(l, `"`)%2 != 0 || !strings.HasPrefix(l, "  ") {
				t.Fatalf("mermaid: %s", l)
			}
		}
	})
}

func TestPicturesAreNotDrawnTooLarge(t *testing.T) {
	d := &render.Diagram{Title: "large", Nodes: make([]render.DiagramNode, render.MostDrawn+1)}
	if s := d.Svg(); enctest.CheckSVG(s) != nil || !strings.Contains(s, "too many to draw") {
		t.Error(s)
	}
}

func TestPicturesOfGrammars(t *testing.T) {
	a := encoders.NewAlphabet()
	e := NewGrammarEncoder(a, GrammarOptions{Runs: true}, encoders.Limits{})
	for _, w := range strings.Fields("A B B B B B B B B B C D D D B C D C") {
		e.Append([]encoders.Symbol{a.Symbol(w)}, nil)
	}
	g := e.Encode().(*Grammar)
	enctest.CheckGolden(t, "grammar.dot", g.Dot())
	enctest.CheckGolden(t, "grammar.mermaid", g.Mermaid())
	if err := enctest.CheckSVG(g.SVG()); err != nil {
		t.Error(err)
	}
}

func TestPicturesOfCalls(t *testing.T) {
	a := encoders.NewAlphabet()
	e := NewDAGEncoder(a, 3, encoders.Limits{})
	at := int64(0)
	for _, w := range strings.Fields("main load read < read < parse lex < lex < < < solve step f < g < < step f < g < < step f < g < < step f < g < < < save write < < <") {
		at += 1500
		s := encoders.Return
		if w != "<" {
			s = a.Function(w)
		}
		e.Append([]encoders.Symbol{s}, []int64{at})
	}
	g := e.Encode().(*Grammar)
	enctest.CheckGolden(t, "calls.dot", g.Dot())
	enctest.CheckGolden(t, "calls.svg", g.SVG())
	if err := enctest.CheckSVG(g.SVG()); err != nil {
		t.Error(err)
	}
}

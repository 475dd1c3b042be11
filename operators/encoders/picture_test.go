package encoders

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// checkSVG is an error if text is no XML document of one svg element.
func checkSVG(text string) error {
	d := xml.NewDecoder(strings.NewReader(text))
	depth, roots := 0, 0
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			if depth == 0 {
				roots++
				if tok.Name.Local != "svg" || tok.Name.Space != "http://www.w3.org/2000/svg" {
					return errors.New("the root is " + tok.Name.Local)
				}
			}
			depth++
		case xml.EndElement:
			depth--
		}
	}
	if roots != 1 || depth != 0 {
		return errors.New("there is not one svg element")
	}
	return nil
}

// checkGolden compares with a file of testdata/pictures; UPDATE_PICTURES=1
// writes it.
func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "pictures", name)
	if os.Getenv("UPDATE_PICTURES") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("%s, %v: got\n%s", path, err, got)
	}
}

func runningExample(t *testing.T) *Automaton {
	return automatonOf(t, AutomatonOptions{K: 3}, "A B B B B B B B B B C D D D B C D C")
}

func TestPicturesOfAnAutomaton(t *testing.T) {
	a := runningExample(t)
	checkGolden(t, "automaton.dot", a.Dot())
	checkGolden(t, "automaton.mermaid", a.Mermaid())
	checkGolden(t, "automaton.svg", a.SVG())
	basic := automatonOf(t, AutomatonOptions{K: 3, NoLoops: true}, "A B B B B B B B B B C D D D B C D C")
	checkGolden(t, "automaton-basic.svg", basic.SVG())
	if err := checkSVG(a.SVG()); err != nil {
		t.Error(err)
	}
}

// Whatever the symbols are called: the SVG is one, with every name as its text,
// and no line of dot or Mermaid is broken by one.
func TestPicturesOfHostileNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.StringN(0, 20, 30), 1, 4).Draw(t, "names")
		alphabet := NewAlphabet()
		e, _ := NewAutomatonEncoder(alphabet, AutomatonOptions{K: 2}, Limits{})
		for _, n := range names {
			e.Append([]Symbol{alphabet.Symbol(n)}, []int64{1500})
		}
		a := e.Encode().(*Automaton)
		if err := checkSVG(a.SVG()); err != nil {
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
	d := &diagram{title: "large", nodes: make([]diagramNode, mostDrawn+1)}
	if s := d.svg(); checkSVG(s) != nil || !strings.Contains(s, "too many to draw") {
		t.Error(s)
	}
}

func TestPicturesOfGrammars(t *testing.T) {
	a := NewAlphabet()
	e := NewGrammarEncoder(a, GrammarOptions{Runs: true}, Limits{})
	for _, w := range strings.Fields("A B B B B B B B B B C D D D B C D C") {
		e.Append([]Symbol{a.Symbol(w)}, nil)
	}
	g := e.Encode().(*Grammar)
	checkGolden(t, "grammar.dot", g.Dot())
	checkGolden(t, "grammar.mermaid", g.Mermaid())
	if err := checkSVG(g.SVG()); err != nil {
		t.Error(err)
	}
}

func TestPicturesOfCalls(t *testing.T) {
	a := NewAlphabet()
	e := NewDAGEncoder(a, 3, Limits{})
	at := int64(0)
	for _, w := range strings.Fields("main load read < read < parse lex < lex < < < solve step f < g < < step f < g < < step f < g < < step f < g < < < save write < < <") {
		at += 1500
		s := Return
		if w != "<" {
			s = a.Function(w)
		}
		e.Append([]Symbol{s}, []int64{at})
	}
	g := e.Encode().(*Grammar)
	checkGolden(t, "calls.dot", g.Dot())
	checkGolden(t, "calls.svg", g.SVG())
	if err := checkSVG(g.SVG()); err != nil {
		t.Error(err)
	}
}

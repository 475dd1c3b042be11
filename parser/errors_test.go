package parser

import (
	"errors"
	"strings"
	"testing"
)

func TestFormat(t *testing.T) {
	src := "SELECT * FROM cpu_usage"
	for _, c := range []struct {
		name string
		e    Error
		want string
	}{
		{"a place and a hint", Error{
			Msg: "cpu_usage has a value at every instant and cannot be read tuple by tuple", Src: src,
			Hint: "SELECT * FROM SAMPLE(cpu_usage, 100ms)", Pos: Span{14, 23},
		}, `error: cpu_usage has a value at every instant and cannot be read tuple by tuple
  SELECT * FROM cpu_usage
                ^
hint: SELECT * FROM SAMPLE(cpu_usage, 100ms)`},
		{"a parse error", Error{Msg: "m", Src: "a\n\tbé c", Pos: Span{7, 8}, Syntax: true}, "error: 2:5: m\n  \tbé c\n  \t   ^"},
		{"no place", Error{Msg: "m", Hint: "h", Src: src, Pos: Span{-1, -1}}, "error: m\nhint: h"},
		{"no text", Error{Msg: "m", Pos: Span{3, 4}}, "error: m"},
		{"a place beyond the text", Error{Msg: "m", Src: "a", Pos: Span{3, 4}}, "error: m"},
		{"the end", Error{Msg: "m", Src: "ab\r\n", Pos: Span{2, 2}}, "error: m\n  ab\n    ^"},
		{"after the last line", Error{Msg: "m", Src: "ab\n", Pos: Span{3, 3}}, "error: m\n  \n  ^"},
		{"what a terminal would obey", Error{Msg: "m", Src: "a\x1b[2Jb c", Pos: Span{7, 8}}, "error: m\n  a [2Jb c\n         ^"},
	} {
		if got := Format(&c.e); got != c.want {
			t.Errorf("%s:\n%s\nnot\n%s", c.name, got, c.want)
		}
	}
	var e *Error
	if _, err := Parse("SELECT"); !errors.As(err, &e) || err.Error() != Format(e) {
		t.Errorf("the error %v is not its own text", err)
	}
}

// TestFormatLong checks that of a very long line no more is shown than helps,
// and the caret still stands under its character.
func TestFormatLong(t *testing.T) {
	for _, at := range []int{0, 10, 500, 990, 999} {
		src := strings.Repeat("x", at) + "!" + strings.Repeat("x", 999-at)
		lines := strings.Split(Format(&Error{Msg: "m", Src: src, Pos: Span{at, at + 1}}), "\n")
		shown, caret := []rune(lines[1]), strings.Index(lines[2], "^")
		if len(shown) > maxLine+10 || caret >= len(shown) || shown[caret] != '!' {
			t.Errorf("the mistake at %d is shown as\n%s\n%s", at, lines[1], lines[2])
		}
	}
}

// TestDiagnosisExpects checks the promise of a message that lists what is
// expected: the grammar takes each.
func TestDiagnosisExpects(t *testing.T) {
	for _, src := range []string{
		"SELECT a b c FROM x", "CREATE STREAM s SELECT a FROM x", "EXPLAIN SHOW STREAMS", "SELECT a FROM x y z",
		"SELECT a FROM x WHERE b BETWEEN 1 OR 2", "SELECT case when a then b FROM x", "CREATE STREAM s AS",
	} {
		tokens := significant(scan(src))
		_, wrong := recognise(tokens)
		if wrong == nil {
			t.Fatalf("%s is a correct statement", src)
		}
		d := newDiagnosis(tokens, wrong.pos.Column)
		words := d.keywords()
		if len(words) == 0 {
			t.Errorf("%s: no keyword could stand there", src)
		}
		for _, w := range words {
			text := src[:d.error(0, "", "").Pos.Start] + " " + w
			_, wrong := recognise(significant(scan(text)))
			if wrong != nil && wrong.pos.Column <= d.at {
				t.Errorf("%s is said to be possible in %q, and is not", w, text)
			}
		}
	}
}

func TestNearest(t *testing.T) {
	list := []string{"FROM", "FOR", "SELECT", "WHERE", "TUMBLE"}
	for word, want := range map[string]string{
		"FORM": "FROM", "FRM": "FROM", "SELCT": "SELECT", "SLEECT": "SELECT", "WERE": "WHERE", "TUMBEL": "TUMBLE",
		"XYZ": "", "FX": "", "ELSE": "", "": "",
	} {
		if got := nearest(word, list); got != want && !(word == "FORM" && got == "FOR") {
			t.Errorf("%s is taken for %q, not %q", word, got, want)
		}
	}
}

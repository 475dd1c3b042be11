package parser

import (
	"strconv"
	"strings"
	"testing"
)

// TestLimitsNamed holds the error of a limit to its name, its place and its hint.
func TestLimitsNamed(t *testing.T) {
	for _, c := range []struct {
		src, msg, hint string
		at             int
	}{
		{"SELECT a" + strings.Repeat("+a", maxOperators+1) + " FROM s", "more than 5000 operators", "a IN ('x', 'y')", len("SELECT a") + 2*maxOperators},
		{"SELECT " + strings.Repeat("(", maxNesting+1) + "a", "nested more than 200 levels deep", "WITH", len("SELECT ") + maxNesting},
		{"SELECT " + strings.Repeat("a234567890123456789012345678901234567890 ", maxTokens), "more than 20000 words, numbers and signs", "file('list.csv')", len("SELECT ") + 41*(maxTokens-1)},
		{"SELECT a" + strings.Repeat(",a", 5000) + " FROM s", "need more than 8 MiB of memory", "file('list.csv')", -1},
		{strings.Repeat(" ", maxLength+1), "longer than 1 MiB", "file('list.csv')", 0},
	} {
		_, err := Parse(c.src)
		e, ok := err.(*Error)
		if !ok || !e.Syntax || !strings.Contains(e.Msg, c.msg) || !strings.Contains(e.Hint, c.hint) {
			t.Errorf("%s: %v", c.msg, err)
			continue
		}
		if c.at >= 0 && e.Pos.Start != c.at {
			t.Errorf("%s: at %d, expected %d", c.msg, e.Pos.Start, c.at)
		}
	}
}

// TestListOfConstants compares a list that becomes one token to the same list in
// parentheses, which does not.
func TestListOfConstants(t *testing.T) {
	elements := []string{"1", "'a'", "''''", "2.5", "70%", "100ms", "1.5s", "64KiB", "0x1f", "0x1fs", "0.25d", "1.000000001s", "1e3", "9223372036854775807", "'a' /* c, */", "-- , \n 3", "'x)'"}
	for range 2 {
		elements = append(elements, elements...)
	}
	list := func(open, close string) *In {
		var parts []string
		for _, e := range elements {
			parts = append(parts, open+e+"\n"+close)
		}
		s, err := Parse("SELECT a FROM s WHERE a IN (" + strings.Join(parts, ",") + ", b, 7 + 8)")
		if err != nil {
			t.Fatal(err)
		}
		return s.(*Query).Selects[0].Where.(*In)
	}
	got, want := list("", ""), list("(", ")")
	if len(got.List) != len(elements)+2 || len(want.List) != len(got.List) {
		t.Fatalf("%d and %d elements", len(got.List), len(want.List))
	}
	for i := range got.List {
		if g, w := got.List[i].String(), want.List[i].String(); g != w {
			t.Errorf("%d: %s, expected %s", i, g, w)
		}
	}
	for _, src := range []string{
		"SELECT a FROM s WHERE a IN (1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17 x)",
		"SELECT a FROM s WHERE a IN (1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,)",
		"SELECT a FROM s WHERE a IN (1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,99999999999999999999)",
		"SELECT a FROM s WHERE a IN (1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17",
		"SELECT a FROM s WHERE a IN (1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17 FROM",
	} {
		_, err := Parse(src)
		if err == nil {
			t.Errorf("%s: no error", src)
			continue
		}
		checkError(t, src, err)
	}
	// Positions are those in the whole text.
	src := "SELECT a FROM s WHERE a IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 'x')"
	s, err := Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range s.(*Query).Selects[0].Where.(*In).List {
		if text := src[e.Pos().Start:e.Pos().Stop]; text != e.String() {
			t.Errorf("%s is at %s", e, text)
		}
	}
}

// Finding reads takes time that grows with the text, not faster: each token is
// lexed once.
func BenchmarkReads(b *testing.B) {
	for _, n := range []int{500, 1000, 2000} {
		src := "SELECT '', " + strings.Repeat("CAST(a AS BIGINT), ", n) + "CAST(arg0 AS 'struct t *').x"
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			for b.Loop() {
				if len(Reads(src)) != 1 {
					b.Fatal("the read is not found")
				}
			}
		})
	}
}

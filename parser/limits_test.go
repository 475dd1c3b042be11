package parser

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// hostile are shapes of statements that cost much memory for their text. Each has a part
// that is repeated.
var hostile = []struct{ name, head, part, tail string }{
	{"AND", "SELECT a FROM s WHERE a", " AND a", ""},
	{"OR", "SELECT a FROM s WHERE a=1", " OR a=1", ""},
	{"sum", "SELECT 1", "+1", " FROM s"},
	{"names", "SELECT a", "+a", " FROM s"},
	{"NOT", "SELECT a FROM s WHERE ", "NOT ", "a"},
	{"signs", "SELECT ", "- ", "a FROM s"},
	{"parentheses", "SELECT ", "(", ""},
	{"sub-queries", "", "SELECT a FROM (", ""},
	{"windows", "SELECT a FROM ", "TUMBLE(", ""},
	{"IN", "SELECT a FROM s WHERE a IN (1", ",1", ")"},
	{"IN, long", "SELECT a FROM s WHERE a IN (1", ", 1234567", ")"},
	{"IN, strings", "SELECT a FROM s WHERE a IN (''", ",''''", ")"},
	{"IN, durations", "SELECT a FROM s WHERE a IN (1s", ",1.5s", ")"},
	{"IN, floats", "SELECT a FROM s WHERE a IN (1", ",.1", ")"},
	{"IN, negative", "SELECT a FROM s WHERE a IN (1", ",-1", ")"},
	{"IN, names", "SELECT a FROM s WHERE a IN (a", ",a", ")"},
	{"IN, comments", "SELECT a FROM s WHERE a IN (1", ",/**/1", ")"},
	{"INs", "SELECT a FROM s WHERE a IN (1)", " OR a IN (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)", ""},
	{"IN, not closed", "SELECT a FROM s WHERE a IN (1", ",1", ""},
	{"columns", "SELECT a", ",a", " FROM s"},
	{"columns with names", "SELECT a", ",a b", " FROM s"},
	{"long columns", "SELECT a", ",\n  a_column_with_a_long_name", " FROM s"},
	{"GROUP BY", "SELECT a FROM s GROUP BY a", ",a", ""},
	{"ORDER BY", "SELECT a FROM s ORDER BY a", ",a", ""},
	{"PARTITION BY", "SELECT a FROM SESSION(s, 1s PARTITION BY a", ",a", ")"},
	{"arguments", "SELECT f(a", ",a", ") FROM s"},
	{"calls", "SELECT f(a)", ",f(a)", " FROM s"},
	{"named arguments", "SELECT f(a", ",a=>a", ") FROM s"},
	{"casts", "SELECT a::b", ",a::b", " FROM s"},
	{"comparisons", "SELECT a", ",a IS NULL,a BETWEEN b AND c", " FROM s"},
	{"JOIN", "SELECT a FROM s", " JOIN s", ""},
	{"comma JOIN", "SELECT a FROM s", ",JOIN s", ""},
	{"WINDOW JOIN", "SELECT a FROM s", " WINDOW JOIN s WITHIN 1s a FOLLOWED BY b", ""},
	{"UNION", "SELECT a FROM s", " UNION ALL SELECT a FROM s", ""},
	{"WITH", "WITH a AS (SELECT a FROM s)", ",a AS (SELECT a FROM s)", " SELECT a FROM s"},
	{"WITH, small", "WITH a AS (SELECT FROM s)", ",a AS(SELECT FROM s)", " SELECT a FROM s"},
	{"CASE", "SELECT CASE ", "WHEN a THEN a ", "END FROM s"},
	{"CASEs", "SELECT CASE WHEN a THEN a END", ",CASE WHEN a THEN a END", " FROM s"},
	{"actions", "CREATE TRIGGER t s WHEN a BEGIN ", "STOP s ", "END"},
	{"queries", "CREATE TRIGGER t s WHEN a BEGIN ", "SELECT FROM s;", "END"},
	{"samples", "CREATE TRIGGER t s WHEN a BEGIN ", "SAMPLE(s,1s) FOR 1s;", "END"},
	{"dots", "SELECT a", ".a", " FROM s"},
	{"dots in FROM", "SELECT a FROM a", ".a", ""},
	{"elements", "SELECT a", "[1]", " FROM s"},
	{"quotes", "SELECT '", "''", "' FROM s"},
	{"quoted names", `SELECT "a`, `""`, `" FROM s`},
	{"string", "SELECT '", "xy", "' FROM s"},
	{"name", "SELECT ", "ab", " FROM s"},
	{"open string", "SELECT '", "x ", ""},
	{"number", "SELECT 1", "11", ""},
	{"unit", "SELECT 1", "xx", ""},
	{"comments", "SELECT a /**/", "/**/", " FROM s"},
	{"comment", "SELECT a -- ", "x ", "\nFROM s"},
	{"space", "SELECT a", "   ", " FROM s"},
	{"semicolons", "", ";", ""},
	{"statements", "", "SHOW STREAMS;", ""},
	{"garbage", "SELECT a FROM s WHERE ", "x ", ""},
	{"signs only", "", "(=", ""},
	{"invisible", "SELECT ", "\u202e", ""},
	{"wrong at the end", "SELECT a FROM s WHERE a", " OR a", " ) x"},
	{"nothing at the end", "SELECT a FROM s WHERE a", " OR a", " OR"},
	{"wrong keyword", "SELECT a", ",a", " GROUP"},
}

// allocated returns the bytes that f allocates.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// TestMemory holds parsing to memoryPerByte bytes for each byte of the text, or minMemory,
// and to what Memory says.
func TestMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates, too")
	}
	for _, c := range hostile {
		t.Run(c.name, func(t *testing.T) {
			for _, size := range []int{100, 1000, 10_000, 300_000, maxLength} {
				src := c.head + strings.Repeat(c.part, max(size-len(c.head)-len(c.tail), 0)/len(c.part)) + c.tail
				var err error
				n := allocated(func() {
					if _, err = Parse(src); err != nil {
						_ = err.Error()
					}
				})
				if most := max(memoryPerByte*len(src), minMemory); n > most {
					t.Errorf("%d bytes of text: %d bytes were allocated, %d are permitted; the error is %.100v", len(src), n, most, err)
				}
				if m := int(Memory(src)); err == nil && n > m {
					t.Errorf("%d bytes of text: %d bytes were allocated, %d estimated", len(src), n, m)
				}
				if m := allocated(func() { Memory(src) }); m > 10_000+memoryPerByte*len(src) {
					t.Errorf("%d bytes of text: the estimate itself allocates %d bytes", len(src), m)
				}
			}
		})
	}
}

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

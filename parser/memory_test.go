//go:build !race

// The race detector allocates memory of its own.

package parser

import (
	"runtime"
	"strings"
	"testing"

	"endoscope/probes/testenv"
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
	for _, c := range hostile {
		t.Run(c.name, func(t *testing.T) {
			for _, size := range testenv.Few(3, []int{100, 1000, 10_000, 300_000, maxLength}) {
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

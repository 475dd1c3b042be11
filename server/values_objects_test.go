package server_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/parser"
	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// valuesOfProgram runs each query over a new process of the program, and compares its rows
// without their addresses.
func valuesOfProgram(t *testing.T, program string, cases []rowsOf) {
	t.Helper()
	for _, c := range cases {
		w := startWaiting(t, program)
		s := newSession(t, wire.Options{PID: w.pid()})
		q := start(t, s, c.query)
		w.goOn()
		got := read(t, q)
		complete(t, got)
		for _, row := range got.rows {
			for i := range row {
				row[i] = withoutAddresses(row[i])
			}
		}
		if diff := cmp.Diff(c.rows, got.rows); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.query, diff)
		}
		if !strings.Contains(strings.Join(got.notices, "\n"), c.notice) {
			t.Errorf("%s: %q, want the notice %s", c.query, got.notices, c.notice)
		}
	}
}

// rowsOf are what a query returns, with a part of a notice.
type rowsOf struct {
	query  string
	rows   [][]string
	notice string
}

// shapeOfC is the object of testdata/values/types.c, with a coordinate that a function changes.
func shapeOfC(x string) string {
	return `{"kind": "a\"b\\", "n": {"i": -5, "f": "NaN", "bytes": [251, 255, 255, 255]}, "left": 1, "right": -2, "corners": [{"x": ` + x +
		`, "y": 4}, {"x": -5, "y": 6}], "names": ["one", "four"], "raw": [0, 127, 255], "low": 5, "high": 17, "delta": -3, "color": "BLUE", "open": true, ` +
		`"f": 0.1, "d": -2.5e+300, "ld": 3.25, "large": 18446744073709551615, "text": "0x", "next": "0x", "code": "0x", "none": []}`
}

// TestResultsAsObjects: what functions return, as keys of groups and in conditions, too.
func TestResultsAsObjects(t *testing.T) {
	testenv.NeedUprobes(t)
	const point, turned = `{"x": 5, "y": -6}`, `{"x": -6, "y": 5}`
	for _, flags := range [][]string{{"-O0"}, {"-O2"}, {"-O2", "-no-pie", "-fno-pic"}} { // the last uses addresses of stubs
		valuesOfProgram(t, testenv.CompileC(t, filepath.Join("testdata", "values", "types.c"), append(flags, "-g")...), []rowsOf{
			{query: "SELECT symbol(arg0), symbol(retval), str(args.p, 0x1) IS NULL FROM function_duration WHERE function_name = 'pointer' LIMIT 1", rows: [][]string{{"puts", "puts", "false"}}},
			{query: "SELECT COUNT(*) FROM function_start WHERE function_name = 'texts' AND length(str(arg0, 1KiB)) = 21 AND hex(arg1, 1B) = '00'", rows: [][]string{{"3"}}},
			{query: "SELECT args.p, retval FROM function_duration WHERE function_name = 'swapped' LIMIT 1", rows: [][]string{{point, turned}}},
			{query: "SELECT retval FROM function_end WHERE function_name = 'moved' LIMIT 1", rows: [][]string{{shapeOfC("7")}}},
			{query: "SELECT retval.corners, retval.corners[0].x FROM function_end WHERE function_name = 'moved' LIMIT 1",
				rows: [][]string{{`[{"x": 7, "y": 4}, {"x": -5, "y": 6}]`, "7"}}},
			{query: "SELECT args.p, COUNT(*) FROM function_start WHERE function_name IN ('swapped', 'wholes') GROUP BY args.p ORDER BY args.p",
				rows: [][]string{{`{"x": -1, "y": 2}`, "3"}, {point, "3"}}},
			{query: "SELECT COUNT(*) FROM function_duration WHERE function_name = 'swapped' AND retval = '" + turned + "' AND args.p <> '" + turned + "'", rows: [][]string{{"3"}}},
			{query: "SELECT COUNT(*) FROM function_start WHERE function_name = 'swapped' AND args.p = '" + turned + "'", rows: [][]string{{"0"}}},
			{query: "SELECT symbol(arg0), COUNT(*) FROM function_start WHERE function_name = 'called' AND symbol(arg0) = 'twice' AND symbol(args.table[0]) IS NULL GROUP BY symbol(arg0)",
				rows: [][]string{{"twice", "3"}}},
			{query: "SELECT " + manyBytes(15) + ", arg0 IS NULL FROM function_start WHERE function_name = 'texts' LIMIT 1", rows: [][]string{begins("53454c4543542031202f2a20c3bc6d", 15, "false")}},
			{query: "SELECT hex(args.s.large), hex(args.by_value.delta), hex(args.s.low), hex(args.s.color), hex(args.s.next.left) FROM function_start WHERE function_name = 'wholes' AND hex(args.s.large) = '0xffffffffffffffff' LIMIT 1",
				rows: [][]string{{"0xffffffffffffffff", "0xfffffffffffffffd", "0x5", "0xfffffffffffffffe", "0x1"}}},
			{query: "SELECT hex(retval.large), hex(retval.high) FROM function_end WHERE function_name = 'moved' LIMIT 1", rows: [][]string{{"0xffffffffffffffff", "0x11"}}},
			{query: "SELECT hex(args.b.bytes, 4), args FROM function_start WHERE function_name = 'large' LIMIT 1",
				rows: [][]string{{"62696700", `{"b": "0x", "d": null, "after": 9}`}}, notice: "args.d of large is floating point and in an XMM register"},
			{query: "SELECT args.all.in[args.s.low].x, args.s.raw[args.i], args.s.raw[arg3], args.all.in[args.all.count].y, args.s.raw[args.s.delta] FROM function_start WHERE function_name = 'indexed' LIMIT 1",
				rows: [][]string{{"NULL", "127", "255", "15", "NULL"}}},
		})
	}
}

// TestRefusedObjects: what is refused, and the hint.
func TestRefusedObjects(t *testing.T) {
	testenv.NeedUprobes(t)
	w := startWaiting(t, testenv.CompileC(t, filepath.Join("testdata", "values", "types.c"), "-g", "-O0"))
	golang := startWaiting(t, testenv.CompileGo(t, filepath.Join("testdata", "values", "goprog")))
	for _, c := range []struct {
		pid                     int
		function, values        string
		wantMessage, wantedHint string
	}{
		{w.pid(), "large", "args.b[0]", "big has 1032 bytes, and at most 1024 are read as a whole", "its fields are .bytes, .end"},
		{w.pid(), "floating", "args.d", "floating point and in an XMM register", ""},
		{w.pid(), "indexed", "args.list[args.x].id", "indexed has no argument x", ""},
		{w.pid(), "indexed", "args.list[args.all].id", "the index args.all is no number", ""},
		{w.pid(), "indexed", "args.list[args.i].owners[args.i].name[args.j]", "has computed indexes before and after a pointer", ""},
		{w.pid(), "wholes", manyBytes(16), "at most 6 numbers and 15 texts, objects and further numbers of a call can be read at a time", ""},
		{w.pid(), "indexed", "symbol(args.i)", "args.i of indexed is no pointer", ""},
		{w.pid(), "texts", "hex(args.letter, 4)", "args.letter of texts is no pointer", ""},
		{w.pid(), "floating", "hex(args.d)", "floating point and in an XMM register", ""},
		{golang.pid(), "main.integers", "arg9", "arguments of Go after the 9th integer are on the stack", "args.name"},
	} {
		s := newSession(t, wire.Options{PID: c.pid})
		_, err := s.Execute(t.Context(), "SELECT "+c.values+" FROM function_start WHERE function_name = '"+c.function+"'")
		var e *parser.Error
		if !errors.As(err, &e) || !strings.Contains(e.Msg, c.wantMessage) || !strings.Contains(e.Hint, c.wantedHint) {
			t.Errorf("%s of %s: %v\nwant %s, with the hint %s", c.values, c.function, err, c.wantMessage, c.wantedHint)
		}
	}
}

// manyBytes names n texts.
func manyBytes(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("hex(arg0, %d)", i+1))
	}
	return strings.Join(list, ", ")
}

// begins returns the first, first two, ... first n bytes of digits, and what follows them.
func begins(digits string, n int, more ...string) (row []string) {
	for i := range n {
		row = append(row, digits[:2*(i+1)])
	}
	return append(row, more...)
}

// TestGoroutines compares the column with the numbers that the program knows of its
// goroutines, in every stream of functions.
func TestGoroutines(t *testing.T) {
	testenv.NeedUprobes(t)
	program := testenv.CompileGo(t, filepath.Join("testdata", "values", "goprog"))
	const where = " WHERE function_name = 'main.numbered'"
	cases := []rowsOf{
		{query: "SELECT COUNT(*), COUNT(DISTINCT goroutine) FROM function_start" + where, rows: [][]string{{"10", "5"}}},
		{query: "SELECT COUNT(*) FROM function_start" + where + " AND goroutine = args.id", rows: [][]string{{"10"}}},
		{query: "SELECT COUNT(*) FROM function_end" + where + " AND goroutine = retval", rows: [][]string{{"10"}}},
		{query: "SELECT COUNT(*) FROM function_duration" + where + " AND goroutine = args.id AND goroutine = retval", rows: [][]string{{"10"}}},
		{query: "SELECT COUNT(*) FROM function_call" + where + " AND goroutine > 1", rows: [][]string{{"20"}}},
		{query: "SELECT COUNT(*) FROM function_start" + where + " AND goroutine <= 1", rows: [][]string{{"0"}}},
		{query: "SELECT n, COUNT(*) FROM (SELECT goroutine, COUNT(*) AS n FROM function_end" + where + " GROUP BY goroutine) GROUP BY n", rows: [][]string{{"2", "5"}}},
	}
	valuesOfProgram(t, program, cases)
	c := testenv.CompileC(t, filepath.Join("testdata", "values", "types.c"), "-O2")
	for _, stream := range []string{"function_start", "function_end", "function_duration"} {
		none := "SELECT COUNT(*), COUNT(goroutine) FROM " + stream + " WHERE function_name = 'swapped'"
		valuesOfProgram(t, c, []rowsOf{{query: none, rows: [][]string{{"3", "0"}}}})
	}
}

package server_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/parser"
	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// returned is a function, columns of what it returns, and what gdb is asked for the same
// when it has finished the function: `$` is what was returned. refused is what the error
// says instead of a value.
type returned struct {
	name    string
	columns []compared
	refused string
}

func (r returned) query() string {
	var names []string
	for _, c := range r.columns {
		names = append(names, c.column)
	}
	return fmt.Sprintf("SELECT %s FROM function_end WHERE function_name = '%s'", strings.Join(names, ", "), r.name)
}

func whole(gdb string) []compared { return []compared{{"retval", gdb}} }

var resultsOfC = []returned{
	{name: "small", columns: whole(gdbNumber("(int)$"))},
	{name: "byte", columns: whole(gdbNumber("(int)$"))},
	{name: "shorter", columns: whole(gdbNumber("$"))},
	{name: "negative", columns: whole(gdbNumber("$"))},
	{name: "unsigned_", columns: whole(gdbNumber("$"))},
	{name: "wide", columns: whole(gdbNumber("$"))},
	{name: "yes", columns: whole(gdbNumber("$"))},
	{name: "no", columns: whole(gdbNumber("$"))},
	{name: "color", columns: whole(gdbNumber("$"))},
	{name: "text", columns: []compared{{"retval", gdbText("$")}, {"str(retval, 3)", `printf "%.3s", $`}}},
	{name: "address", columns: whole(gdbNumber("(long)$"))},
	{name: "point", columns: []compared{{"retval.x", gdbNumber("$.x")}, {"retval.y", gdbNumber("$.y")}, {"retval", gdbObject("$")}}},
	{name: "pair", columns: []compared{{"retval.n", gdbNumber("$.n")}, {"retval.name", gdbText("$.name")}, {"retval", gdbObject("$")}}},
	{name: "flags", columns: []compared{{"retval.low", gdbNumber("$.low")}, {"retval.high", gdbNumber("$.high")}, {"retval.open", gdbNumber("$.open")}, {"retval", gdbObject("$")}}},
	{name: "mixed", columns: []compared{{"retval.n", gdbNumber("$.n")}}},
	{name: "large", columns: []compared{{"retval.id", gdbNumber("$.id")}, {"retval.path", gdbText("$.path")}, {"retval.at.y", gdbNumber("$.at.y")}, {"retval", gdbObject("$")}}},
	{name: "pointed", columns: []compared{{"retval.id", gdbNumber("$.id")}, {"retval.path", gdbText("$.path")}, {"retval[0]", gdbObject("*$")}, {"retval.more", gdbObject("$->more")}}},
	{name: "frame", columns: whole(gdbNumber("$"))},
	{name: "fraction", columns: whole(""), refused: "retval of fraction is floating point and in an XMM register"},
	{name: "mixed", columns: []compared{{"retval.load", ""}}, refused: "retval.load of mixed is floating point"},
	{name: "none", columns: whole(""), refused: "none returns nothing"},
	{name: "pair", columns: []compared{{"retval.m", ""}}, refused: "pair has no field m"},
}

var resultsOfCPP = []returned{
	{name: "shop::Order::state", columns: whole(gdbNumber("$"))},
	{name: "shop::Order::name[abi:cxx11]", columns: whole(gdbText("$._M_dataplus._M_p"))},
	{name: "shop::Order::copied[abi:cxx11]", columns: whole(gdbText("$._M_dataplus._M_p"))},
	{name: "shop::Order::first", columns: []compared{{"retval.id", gdbNumber("$.id")}, {"retval.count", gdbNumber("$.count")}}},
	{name: "shop::Order::self", columns: []compared{{"retval.total", gdbNumber("$.total")}, {"retval.customer", gdbText("$.customer._M_dataplus._M_p")}}},
	{name: "shop::Order::paid", columns: whole(gdbNumber("$"))},
}

// finished asks gdb what functions return, where each is called for the first time: the
// target calls them in this order.
func finished(t *testing.T, program string, list []returned) map[string][]string {
	t.Helper()
	gdb := testenv.NeedProgram(t, "gdb")
	input := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(input, []byte("go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-batch", "-nx", "-ex", "set debuginfod enabled off", "-ex", "source " + filepath.Join("testdata", "values", "objects.py")}
	goOn := "run < " + input
	for _, f := range list {
		if f.refused != "" {
			continue
		}
		args = append(args, "-ex", "tbreak "+strings.TrimSuffix(f.name, "[abi:cxx11]"), "-ex", goOn, "-ex", "finish")
		for _, c := range f.columns {
			args = append(args, "-ex", `echo \n@@`, "-ex", c.gdb, "-ex", `echo @@\n`)
		}
		goOn = "continue"
	}
	out, said := saidByGDB(t, gdb, append(args, program))
	values := map[string][]string{}
	for _, f := range list {
		for range f.columns {
			if f.refused != "" {
				continue
			}
			if len(said) == 0 {
				t.Fatalf("gdb said\n%s", out)
			}
			values[f.name] = append(values[f.name], withoutAddresses(said[0][1]))
			said = said[1:]
		}
	}
	return values
}

// compareResults asks for what functions of a program return, which it calls three times
// each, and compares with want.
func compareResults(t *testing.T, program, by string, list []returned, want map[string][]string) {
	t.Helper()
	w := startWaiting(t, program)
	s := newSession(t, wire.Options{PID: w.pid()})
	ask(t, s, "SET return_probes = "+by)
	queries := make([]wire.Result, len(list))
	for n, f := range list {
		if f.refused == "" {
			queries[n] = start(t, s, f.query())
			continue
		}
		if _, err := s.Execute(t.Context(), f.query()); err == nil || !strings.Contains(err.Error(), f.refused) {
			t.Errorf("%s: %v, want %s", f.query(), err, f.refused)
		}
	}
	w.goOn()
	for n, f := range list {
		if queries[n] == nil {
			continue
		}
		got := read(t, queries[n])
		complete(t, got)
		row := want[f.name]
		for _, r := range got.rows {
			for i := range r {
				r[i] = withoutAddresses(r[i])
			}
		}
		if diff := cmp.Diff([][]string{row, row, row}, got.rows); diff != "" {
			t.Errorf("%s: -want +got\n%s", f.query(), diff)
		}
	}
}

// TestResultsEqualDebugger compares what functions of C and C++ return with what gdb says.
func TestResultsEqualDebugger(t *testing.T) {
	testenv.NeedUprobes(t)
	c, cpp := filepath.Join("testdata", "results", "results.c"), filepath.Join("testdata", "results", "results.cpp")
	want := map[string]map[string][]string{}
	for _, build := range []struct {
		name, source, optimise, by string
		results                    []returned
	}{
		{"C", c, "-O0", "auto", resultsOfC},
		{"C optimised", c, "-O2", "auto", resultsOfC},
		{"C at exits", c, "-O2", "exits", resultsOfC},
		{"C++", cpp, "-O0", "auto", resultsOfCPP},
		{"C++ optimised", cpp, "-O2", "auto", resultsOfCPP},
	} {
		t.Run(build.name, func(t *testing.T) {
			program := testenv.CompileC(t, build.source, "-g", build.optimise)
			if want[build.source] == nil {
				want[build.source] = finished(t, program, build.results)
				for name, values := range want[build.source] {
					for i, v := range values {
						want[build.source][name][i] = strings.TrimPrefix(v, "shop::State::")
					}
				}
			}
			compareResults(t, program, build.by, build.results, want[build.source])
		})
	}
}

// TestResultsOfGo reads what functions of Go return: the first thing of several, and
// others by their names.
func TestResultsOfGo(t *testing.T) {
	testenv.NeedUprobes(t)
	want := map[string][]string{
		"main.small": {"-100"}, "main.unsigned": {"4000000000"}, "main.wide": {"-9000000000000000000"}, "main.yes": {"true"},
		"main.text": {"a result"}, "main.empty": {""}, "main.where": {"-1", "8"}, "main.whole": {"-6", "/whole", "-2"},
		"main.found": {"6", "/found", "true", "0"}, "main.both": {"-6", "second"},
	}
	list := []returned{
		{name: "main.small", columns: whole("")}, {name: "main.unsigned", columns: whole("")}, {name: "main.wide", columns: whole("")},
		{name: "main.yes", columns: whole("")}, {name: "main.text", columns: whole("")}, {name: "main.empty", columns: whole("")},
		{name: "main.where", columns: []compared{{"retval.x", ""}, {"retval.y", ""}}},
		{name: "main.whole", columns: []compared{{"retval.id", ""}, {"retval.path", ""}, {"retval.at.y", ""}}},
		{name: "main.found", columns: []compared{{"retval.id", ""}, {"retval.path", ""}, {"retval.ok", ""}, {"retval.err.data", ""}}},
		{name: "main.both", columns: []compared{{"retval", ""}, {"retval.r1", ""}}},
		{name: "main.fraction", columns: whole(""), refused: "floating point"},
		{name: "main.none", columns: whole(""), refused: "returns nothing"},
	}
	for name, flags := range map[string][]string{"optimised": nil, "plain": {"-gcflags=all=-N -l"}} {
		t.Run(name, func(t *testing.T) {
			compareResults(t, testenv.CompileGo(t, filepath.Join("testdata", "results", "goprog"), flags...), "auto", list, want)
		})
	}
}

// compileRust compiles a program of one file.
func compileRust(t *testing.T, source string, flags ...string) string {
	t.Helper()
	rustc := testenv.NeedProgram(t, "rustc")
	program := filepath.Join(t.TempDir(), "program")
	if out, err := exec.Command(rustc, append(flags, "-g", "--crate-name", "rusty", "-o", program, source)...).CombinedOutput(); err != nil {
		t.Fatalf("rustc: %v\n%s", err, out)
	}
	return program
}

// TestValuesOfRust reads what functions of Rust take and return.
func TestValuesOfRust(t *testing.T) {
	testenv.NeedUprobes(t)
	results := []returned{
		{name: "rusty::integers", columns: whole("")}, {name: "rusty::more", columns: whole("")}, {name: "rusty::texts", columns: whole("")},
		{name: "rusty::fields", columns: whole("")}, {name: "rusty::color", columns: whole("")}, {name: "rusty::text", columns: whole("")},
		{name: "rusty::pair", columns: []compared{{"retval.__0", ""}, {"retval.__1", ""}}},
		{name: "rusty::point", columns: []compared{{"retval.x", ""}, {"retval.y", ""}}},
		{name: "rusty::three", columns: []compared{{"retval.a", ""}, {"retval.b", ""}, {"retval.c", ""}}},
		{name: "rusty::owned", columns: whole("")},
		{name: "rusty::fraction", columns: whole(""), refused: "floating point"},
	}
	for name, flags := range map[string][]string{"optimised": {"-Copt-level=2"}, "plain": nil} {
		t.Run(name, func(t *testing.T) {
			program := compileRust(t, filepath.Join("testdata", "results", "results.rs"), flags...)
			compareResults(t, program, "auto", results, map[string][]string{
				"rusty::integers": {"494695821"}, "rusty::more": {"true"}, "rusty::texts": {"16"}, "rusty::fields": {"7"},
				"rusty::color": {"Blue"}, "rusty::text": {"/index.html"}, "rusty::pair": {"-6", "200"}, "rusty::point": {"-1", "8"}, "rusty::three": {"-6", "494", "7"}, "rusty::owned": {"grace hopper"},
			})
			w := startWaiting(t, program)
			s := newSession(t, wire.Options{PID: w.pid()})
			arguments := []struct{ columns, function, want string }{
				{"args.a, args.b, args.c, args.d, args.e, args.f", "rusty::integers", "-100 -30000 -2000000000 -9000000000000000000 200 60000"},
				{"args.a, args.b, args.c", "rusty::more", "4000000000 true Green"},
				{"args.first, args.n, args.second", "rusty::texts", "first 1 the second"},
				{"args.n", "rusty::constant", "500"}, // which a compiler that optimises does not pass
				{"args.r.id, args.r.path, args.r.open, args.p.x, args.p.y", "rusty::fields", "-5 /index.html true -1 2"},
				{"args.first, args.r.name, args.r.age", "rusty::owned", "grace hopper 9"},
			}
			var queries []wire.Result
			for _, a := range arguments {
				queries = append(queries, start(t, s, fmt.Sprintf("SELECT %s FROM function_start WHERE function_name = '%s'", a.columns, a.function)))
			}
			w.goOn()
			for n, a := range arguments {
				got := read(t, queries[n])
				complete(t, got)
				var rows []string
				for _, r := range got.rows {
					rows = append(rows, strings.Join(r, " "))
				}
				if diff := cmp.Diff([]string{a.want, a.want, a.want}, rows); diff != "" {
					t.Errorf("%s: -want +got\n%s", a.function, diff)
				}
			}
		})
	}
}

// TestPlacesOfWrongValues points at the names that are wrong, not at the stream.
func TestPlacesOfWrongValues(t *testing.T) {
	testenv.NeedUprobes(t)
	w := startWaiting(t, testenv.CompileC(t, filepath.Join("testdata", "results", "results.c"), "-g", "-O2"))
	s := newSession(t, wire.Options{PID: w.pid()})
	for _, c := range []struct{ query, at string }{
		{"SELECT duration, args.m FROM function_duration WHERE function_name = 'small'", "args.m"},
		{"SELECT duration, d.args.m FROM function_duration d WHERE function_name = 'small'", "d.args.m"},
		{"SELECT duration FROM function_duration WHERE function_name = 'pointed' AND args.l.idd = 3", "args.l.idd"},
		{"SELECT str(args.n, 9) FROM function_start WHERE function_name = 'small'", "str(args.n, 9)"},
		{"SELECT tid, retval FROM function_end WHERE function_name = 'fraction'", "retval"},
		{"SELECT tid, retval.m FROM function_end WHERE function_name = 'pair'", "retval.m"},
	} {
		_, err := s.Execute(t.Context(), c.query)
		var e *parser.Error
		if !errors.As(err, &e) || e.Pos.Start < 0 || c.query[e.Pos.Start:e.Pos.Stop] != c.at {
			t.Errorf("%s: %v: not at %s", c.query, err, c.at)
		}
	}
}

// TestConditionsOnResults gives the same rows whether the kernel tests conditions on what
// is returned or the engine does, and where functions of different types are asked for.
func TestConditionsOnResults(t *testing.T) {
	testenv.NeedUprobes(t)
	program := testenv.CompileC(t, filepath.Join("testdata", "results", "results.c"), "-g", "-O2")
	const all = "function_name IN ('negative', 'yes', 'color', 'text', 'none', 'fraction')"
	for _, kernel := range []string{"on", "off"} {
		w := startWaiting(t, program)
		s := newSession(t, wire.Options{PID: w.pid()})
		ask(t, s, "SET kernel = "+kernel)
		conditions := []struct {
			where string
			rows  int
		}{
			{"function_name = 'negative' AND retval = -2000000000", 3},
			{"function_name = 'negative' AND retval > 0", 0},
			{"function_name = 'yes' AND retval", 3},
			{"function_name = 'no' AND retval", 0},
			{"function_name = 'color' AND retval = 'BLUE'", 3},
			{"function_name = 'color' AND retval <> 'BLUE'", 0},
			{"function_name = 'text' AND retval LIKE 'a res%'", 3},
			{"function_name = 'text' AND retval = 'another'", 0},
			{"function_name = 'nothing' AND retval IS NULL", 3},
			{"function_name = 'huge' AND retval > 9223372036854775807", 3},
			{"function_name = 'point' AND retval.x = -1 AND retval.y = 8", 3},
			{"function_name = 'pointed' AND retval.id < -6", 0},
			{all + " AND retval < 0", 6},             // negative, and color as its number
			{all + " AND retval BETWEEN 0 AND 9", 3}, // yes
			{all + " AND retval IS NULL", 6},         // none and fraction
		}
		var queries []wire.Result
		for _, c := range conditions {
			queries = append(queries, start(t, s, "SELECT duration FROM function_duration WHERE "+c.where))
		}
		w.goOn()
		for i, c := range conditions {
			if got := len(read(t, queries[i]).rows); got != c.rows {
				t.Errorf("kernel %s: where %s: %d rows, want %d", kernel, c.where, got, c.rows)
			}
		}
	}
}

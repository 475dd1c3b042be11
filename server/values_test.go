package server_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// waiting is a program that says "ready" and goes on when it is told to.
type waiting struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

func startWaiting(t *testing.T, path string, args ...string) *waiting {
	t.Helper()
	w := &waiting{cmd: exec.Command(path, args...)}
	w.cmd.Stderr = os.Stderr
	var err error
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.cmd.Process.Kill(); w.cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the target said %q (%v)", line, err)
	}
	go io.Copy(io.Discard, out)
	return w
}

func (w *waiting) pid() int { return w.cmd.Process.Pid }
func (w *waiting) goOn()    { fmt.Fprintln(w.in, "go") }

// debugger asks gdb for the same values, where each function is entered for the first
// time: the target calls them in this order.
func debugger(t *testing.T, program string, list []functionValues) map[string][]string {
	t.Helper()
	gdb := testenv.NeedProgram(t, "gdb")
	input := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(input, []byte("go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var args []string
	say := func(command string) { args = append(args, "-ex", command) }
	args = append(args, "-batch", "-nx")
	say("set debuginfod enabled off")
	say("set print elements unlimited")
	say("source " + filepath.Join("testdata", "values", "objects.py"))
	goOn, last := "run < "+input, ""
	for _, f := range list {
		if f.name != last {
			say("tbreak " + f.name)
			say(goOn)
		}
		goOn, last = "continue", f.name
		for _, c := range f.columns {
			say(`echo \n@@`)
			say(c.gdb)
			say(`echo @@\n`)
		}
	}
	out, said := saidByGDB(t, gdb, append(args, program))
	values := map[string][]string{}
	for _, f := range list {
		for range f.columns {
			if len(said) == 0 {
				t.Fatalf("gdb said\n%s", out)
			}
			values[f.title()] = append(values[f.title()], withoutAddresses(said[0][1]))
			said = said[1:]
		}
	}
	return values
}

// functionValues are values of a function, as many as can be read at a time.
type functionValues struct {
	name    string
	columns []compared
}

func (f functionValues) title() string { return fmt.Sprint(f) }

func (f functionValues) query(stream string) string {
	var names []string
	for _, x := range f.columns {
		names = append(names, x.column)
	}
	return fmt.Sprintf("SELECT %s FROM %s WHERE function_name = '%s'", strings.Join(names, ", "), stream, f.name)
}

// compared is a column and what gdb is asked for the same.
type compared struct{ column, gdb string }

// gdbText is a command of gdb's that prints a text as it is, gdbNumber one that prints a
// number, an enumerator or a truth value.
func gdbText(e string) string   { return `printf "%s", ` + e }
func gdbNumber(e string) string { return "output " + e }

// gdbObject is a command that prints an object as JSON, gdbSymbol one that prints the name of
// what an address is that of, gdbMemory one that prints bytes.
func gdbObject(e string) string           { return fmt.Sprintf("python objects(%q)", e) }
func gdbSymbol(e string) string           { return fmt.Sprintf("python symbol(%q)", e) }
func gdbMemory(e string, size int) string { return fmt.Sprintf("python memory(%q, %d)", e, size) }

const gdbArguments = "python arguments()"

// withoutAddresses replaces the addresses in an object, which differ each time that a program
// is loaded, except those that are 0.
func withoutAddresses(object string) string {
	return addressIn.ReplaceAllString(object, `"0x"`)
}

var addressIn = regexp.MustCompile(`"0x[1-9a-f][0-9a-f]*"`)

var valuesOfC = []functionValues{
	{"integers", []compared{
		{"args.c", gdbNumber("(int)c")}, {"args.s", gdbNumber("s")}, {"args.i", gdbNumber("i")},
		{"args.l", gdbNumber("l")}, {"args.uc", gdbNumber("(int)uc")}, {"args.us", gdbNumber("us")},
	}},
	{"unsigneds", []compared{
		{"args.u", gdbNumber("u")}, {"args.ul", gdbNumber("ul")}, {"args.n", gdbNumber("n")},
		{"args.yes", gdbNumber("yes")}, {"args.no", gdbNumber("no")}, {"args.color", gdbNumber("color")},
	}},
	{"many", []compared{
		{"args.a", gdbNumber("a")}, {"args.f", gdbNumber("f")}, {"args.g", gdbNumber("g")}, {"args.h", gdbNumber("h")},
		{"args.i", gdbText("i")},
	}},
	{"texts", []compared{
		{"args.text", gdbText("text")}, {"args.empty", gdbText("empty")}, {"str(arg0)", gdbText("text")}, {"str(arg0, 4)", `printf "%.4s", text`},
		{"str(args.raw)", gdbText("(char *)raw")}, {"args.letter", gdbNumber("(int)letter")},
	}},
	{"fields", []compared{
		{"args.req.id", gdbNumber("req->id")}, {"args.req.name", `printf "%.16s", req->name`}, {"args.req.path", gdbText("req->path")},
		{"args.req.parent.id", gdbNumber("req->parent->id")}, {"args.req.at.y", gdbNumber("req->at.y")}, {"args.req.color", gdbNumber("req->color")},
	}},
	{"fields", []compared{
		{"args.req.flag", gdbNumber("req->flag")}, {"args.req.kind", gdbNumber("req->kind")}, {"args.req.delta", gdbNumber("req->delta")},
		{"args.req.open", gdbNumber("req->open")}, {"args.req.load", gdbNumber("req->load")}, {"args.req.parent.path", gdbText("req->parent->path")},
	}},
	{"by_value", []compared{
		{"args.p.x", gdbNumber("p.x")}, {"args.p.y", gdbNumber("p.y")}, {"args.whole.id", gdbNumber("whole.id")},
		{"args.whole.at.y", gdbNumber("whole.at.y")}, {"args.last", gdbNumber("last")}, {"args.whole.path", gdbText("whole.path")},
	}},
	{"floating", []compared{{"args.after", gdbNumber("after")}}},
	{"returned", []compared{{"args.before", gdbNumber("before")}, {"args.name", gdbText("name")}}},
	{"elements", []compared{
		{"args.list[1].id", gdbNumber("list[1].id")}, {"args.numbers[2]", gdbNumber("numbers[2]")}, {"args.pair.both[1]", gdbNumber("pair.both[1]")},
		{"args.rows[1][0]", gdbNumber("rows[1][0]")}, {"args.parts[1]", gdbNumber("parts[1]")}, {"args.list[0].grid[1][2]", gdbNumber("(int)list[0].grid[1][2]")},
		{"args.list[1].name", gdbText("list[1].name")}, {"args.argv[1]", gdbText("argv[1]")},
	}},
	{"elements", []compared{
		{"args.list[0].owners[1].path", gdbText("list[0].owners[1]->path")}, {"str(args.argv[0], 3)", `printf "%.3s", argv[0]`},
		{"args.argv[1][3]", gdbNumber("(int)argv[1][3]")}, {"args.list[0].owners[0].name[0]", gdbNumber("(int)list[0].owners[0]->name[0]")},
	}},
	{"opaque", []compared{
		{"CAST(args.ctx AS 'struct request *').parent.path", gdbText("((struct request *)ctx)->parent->path")},
		{"CAST(arg0 AS 'struct request *').color", gdbNumber("((struct request *)ctx)->color")},
		{"container_of(args.at, 'struct request', 'at').path", gdbText("((struct request *)((char *)at - (long)&((struct request *)0)->at))->path")},
		{"container_of(arg1, 'struct request', 'at.x').id", gdbNumber("((struct request *)((char *)at - (long)&((struct request *)0)->at))->id")},
		{"CAST(args.address + 16 AS 'struct item *').name", gdbText("((struct item *)(address + 16))->name")},
		{"CAST(CAST(arg2 + 16 AS 'struct item *').owners[1] AS 'struct request *').id", gdbNumber("((struct item *)(address + 16))->owners[1]->id")},
	}},
	{"opaque", []compared{
		{"CAST(args.ctx AS 'int *')[0]", gdbNumber("*(int *)ctx")}, {"CAST(args.at AS 'unsigned char *')[3]", gdbNumber("(int)((unsigned char *)at)[3]")},
	}},
	{"integers", []compared{{"CAST(args.l AS 'int')", gdbNumber("(int)l")}, {"CAST(arg3 AS 'uint16_t')", gdbNumber("(int)(unsigned short)l")}}},
	{"wholes", []compared{
		{"args.p", gdbObject("p")}, {"args.pair", gdbObject("pair")}, {"args.s[0]", gdbObject("*s")}, {"args.by_value", gdbObject("by_value")},
		{"args.by_value.corners", gdbObject("by_value.corners")}, {"args.points[0]", gdbObject("*points")}, {"args.n[0]", gdbObject("*n")},
		{"args.s.corners[1]", gdbObject("s->corners[1]")}, {"args.s.raw", gdbObject("s->raw")}, {"args", gdbArguments},
	}},
	{"swapped", []compared{{"args", gdbArguments}}},
	{"moved", []compared{{"args", gdbArguments}, {"args.s[0]", gdbObject("*s")}}},
	{"called", []compared{
		{"symbol(arg0)", gdbSymbol("f")}, {"symbol(args.f)", gdbSymbol("f")}, {"symbol(args.data)", gdbSymbol("data")}, {"symbol(args.s.code)", gdbSymbol("s->code")},
		{"symbol(args.table[1])", gdbSymbol("table[1]")}, {"symbol(CAST(arg4 AS 'long *')[1])", gdbSymbol("table[1]")},
		{"hex(args.bytes, 8)", gdbMemory("bytes", 8)}, {"hex(arg3, 5)", gdbMemory("bytes", 5)}, {"hex(args.s.raw, 8)", gdbMemory("&s->raw[0]", 3)},
	}},
	{"indexed", []compared{
		{"args.list[args.i].id", gdbNumber("list[i].id")}, {"args.list[args.i].name", gdbText("list[i].name")}, {"args.s.raw[args.j]", gdbNumber("(int)s->raw[j]")},
		{"args.numbers[args.j]", gdbNumber("numbers[j]")}, {"args.numbers[arg2]", gdbNumber("numbers[i]")}, {"args.list[0].grid[args.i][2]", gdbNumber("(int)list[0].grid[i][2]")},
		{"args.list[0].grid[args.i][args.j]", gdbNumber("(int)list[0].grid[i][j]")},
		{"args.list[0].grid[1][args.j]", gdbNumber("(int)list[0].grid[1][j]")}, {"args.list[0].owners[args.i].path", gdbText("list[0].owners[i]->path")},
		{"args.all.in[args.j]", gdbObject("all->in[j]")}, {"args.all.items[args.i].grid", gdbObject("all->items[i].grid")},
		{"str(args.list[args.i].name, 2)", `printf "%.2s", list[i].name`},
	}},
	{"ten", []compared{
		{"args.a", gdbNumber("a")}, {"args.b", gdbNumber("b")}, {"args.c", gdbNumber("c")}, {"args.d", gdbNumber("(int)d")}, {"args.e", gdbNumber("e")},
		{"args.f", gdbNumber("f")}, {"args.g", gdbNumber("g")}, {"args.h", gdbNumber("h")}, {"args.i", gdbNumber("i")}, {"args.j", gdbNumber("j")},
		{"arg6", gdbNumber("g")}, {"arg9", gdbNumber("j")}, {"args", gdbArguments}, {"hex(arg6)", `printf "%#lx", g`}, {"CAST(arg9 AS 'long')", gdbNumber("j")},
	}},
}

var valuesOfCPP = []functionValues{
	{"shop::Order::add", []compared{
		{"args.item", gdbText("item._M_dataplus._M_p")}, {"args.count", gdbNumber("count")}, {"args.as", gdbNumber("as")},
		{"args.this.total", gdbNumber("this->total")}, {"args.this.version", gdbNumber("this->version")}, {"args.this.customer", gdbText("this->customer._M_dataplus._M_p")},
	}},
	{"shop::named", []compared{
		{"args.by_value", gdbText("by_value._M_dataplus._M_p")}, {"args.pointer", gdbText("pointer->_M_dataplus._M_p")},
		{"args.order.total", gdbNumber("order.total")}, {"args.order.customer", gdbText("order.customer._M_dataplus._M_p")}, {"args.flag", gdbNumber("*&flag")},
	}},
	{"shop::viewed", []compared{{"args.view", gdbText("view._M_str")}, {"args.other", gdbText("other._M_str")}, {"args.view._M_len", gdbNumber("view._M_len")}}},
	{"shop::places", []compared{
		{"args.m", gdbObject("*&m")}, {"args.by_value", gdbObject("by_value")}, {"args.copied", gdbObject("copied")}, {"args.m.at", gdbObject("*&m.at")},
	}},
	{"shop::tagged", []compared{{"args.n", gdbNumber("n")}}}, // whose linker's name says cxx11
}

// TestValuesEqualDebugger compares what is read of calls, at their entries and when they
// have returned, with what gdb sees of the same program: built with and without
// optimisation, and with both versions of debug information.
func TestValuesEqualDebugger(t *testing.T) {
	testenv.NeedUprobes(t)
	c, cpp := filepath.Join("testdata", "values", "types.c"), filepath.Join("testdata", "values", "types.cpp")
	gdbOf := map[string]map[string][]string{} // by source and function
	for _, build := range []struct {
		name, source string
		flags        []string
		values       []functionValues
		debug        bool
	}{
		{"C", c, []string{"-g", "-O0"}, valuesOfC, true},
		{"C optimised", c, []string{"-g", "-O2"}, valuesOfC, false},
		{"C DWARF 4", c, []string{"-gdwarf-4", "-O2"}, valuesOfC, false},
		{"C split", c, []string{"-gdwarf-5", "-gsplit-dwarf", "-ffunction-sections", "-O2"}, valuesOfC, false},
		{"C split DWARF 4", c, []string{"-gdwarf-4", "-gsplit-dwarf", "-fdebug-types-section", "-ffunction-sections", "-O2"}, valuesOfC, false},
		{"C++", cpp, []string{"-g", "-O0"}, valuesOfCPP, true},
		{"C++ optimised", cpp, []string{"-g", "-O2"}, valuesOfCPP, false},
		{"C++ split", cpp, []string{"-gdwarf-5", "-gsplit-dwarf", "-fdebug-types-section", "-O2"}, valuesOfCPP, false},
	} {
		t.Run(build.name, func(t *testing.T) {
			program := testenv.CompileC(t, build.source, build.flags...)
			if build.debug {
				gdbOf[build.source] = debugger(t, program, build.values)
			}
			for _, stream := range []string{"function_start", "function_duration"} {
				w := startWaiting(t, program)
				s := newSession(t, wire.Options{PID: w.pid()})
				var queries []wire.Result
				for _, f := range build.values {
					queries = append(queries, start(t, s, f.query(stream)))
				}
				w.goOn()
				for n, f := range build.values {
					got := read(t, queries[n])
					complete(t, got)
					var want []string
					for _, v := range gdbOf[build.source][f.title()] {
						want = append(want, strings.TrimPrefix(v, "shop::State::"))
					}
					for _, row := range got.rows {
						for i := range row {
							row[i] = withoutAddresses(row[i])
						}
					}
					if diff := cmp.Diff([][]string{want, want, want}, got.rows); diff != "" {
						t.Errorf("%s: -gdb +got\n%s", f.query(stream), diff)
					}
				}
			}
		})
	}
}

// valuesOfGo are what the target passes; gdb knows no more of Go than its source does.
var valuesOfGo = []functionValues{
	{"main.integers", []compared{
		{"args.a", "-100"}, {"args.b", "-30000"}, {"args.c", "-2000000000"}, {"args.d", "-9000000000000000000"}, {"args.e", "200"}, {"args.f", "60000"},
	}},
	{"main.integers", []compared{
		{"args", `{"a": -100, "b": -30000, "c": -2000000000, "d": -9000000000000000000, "e": 200, "f": 60000, "g": 4000000000, "h": 9000000000000000000, "i": true, "j": -77}`},
		{"arg7", "9000000000000000000"}, {"arg6 % 4294967296", "4000000000"}, {"goroutine", "1"},
	}},
	{"main.(*request).handle", []compared{{"args", `{"r": "0x", "verb": {"str": "0x", "len": 3}, "p": {"x": -1, "y": 2}, "c": -3}`}, {"args.p", `{"x": -1, "y": 2}`}}},
	{"main.indexed", []compared{{"args.list[args.i].id", "41"}, {"args.list[args.end].id", "NULL"}, {"args.array[args.i]", "-2"}, {"args.array[args.end]", "NULL"}, {"args.words[args.i]", "two"}}},
	{"main.integers", []compared{{"args.g", "4000000000"}, {"args.h", "9000000000000000000"}, {"args.i", "true"}, {"args.j", "-77"}}},
	{"main.texts", []compared{{"args.first", "first"}, {"args.empty", ""}, {"args.n", "-7"}, {"args.last", "the last"}}},
	{"main.(*request).handle", []compared{
		{"args.r.id", "-5"}, {"args.r.path", "/index.html"}, {"args.r.parent.path", "/up"}, {"args.verb", "GET"}, {"args.p.y", "2"}, {"args.c", "-3"}, {"args.r.load", "0.75"}, {"args.r.open", "true"},
	}},
	{"main.floating", []compared{{"args.after", "-3"}}},
	{"main.slices", []compared{{"args.list.len", "3"}, {"args.end", "-12"}}},
	{"main.named", []compared{{"args.p", "/etc/hosts"}, {"args.end", "4"}}},
	{"main.generic[...]", []compared{{"args.text", "any text"}, {"args.end", "5"}}},
	{"main.elements", []compared{{"args.bytes.len", "3"}, {"args.bytes.cap", "64"}, {"args.none.len", "0"}}}, // on the stack
	{"main.elements", []compared{
		{"args.list[1].id", "41"}, {"args.list[2].id", "NULL"}, {"args.list[1].path", "/up"}, {"args.list[2].path", "NULL"}, {"args.array[2]", "-3"},
		{"args.array", "[1, 2, -3]"}, {"args.pointer[0]", "-7"}, {"args.list[1][0]", `{"id": 41, "path": {"str": "0x", "len": 3}, "at": {"x": 0, "y": 0}, "parent": "0x0", "open": false, "load": 0}`},
		{"args.pointer[1]", "8"}, {"args.words[1]", "two"}, {"args.bytes[2]", "99"}, {"args.bytes[3]", "NULL"}, {"str(args.words[0], 2)", "on"},
	}},
}

// TestValuesOfGo reads arguments of Go functions, compiled with and without optimisation.
func TestValuesOfGo(t *testing.T) {
	testenv.NeedUprobes(t)
	for name, flags := range map[string][]string{"optimised": nil, "plain": {"-gcflags=all=-N -l"}} {
		t.Run(name, func(t *testing.T) {
			program := testenv.CompileGo(t, filepath.Join("testdata", "values", "goprog"), flags...)
			for _, stream := range []string{"function_start", "function_duration"} {
				w := startWaiting(t, program)
				s := newSession(t, wire.Options{PID: w.pid()})
				var queries []wire.Result
				for _, f := range valuesOfGo {
					queries = append(queries, start(t, s, f.query(stream)))
				}
				w.goOn()
				for n, f := range valuesOfGo {
					got := read(t, queries[n])
					complete(t, got)
					var want []string
					for _, x := range f.columns {
						want = append(want, x.gdb)
					}
					for _, row := range got.rows {
						for i := range row {
							row[i] = withoutAddresses(row[i])
						}
					}
					if diff := cmp.Diff([][]string{want, want, want}, got.rows); diff != "" {
						t.Errorf("%s: -want +got\n%s", f.query(stream), diff)
					}
				}
			}
		})
	}
}

// saidByGDB runs gdb and returns all that it wrote, and in it what stands between
// marks, as FindAllStringSubmatch gives it.
func saidByGDB(t testing.TB, gdb string, args []string) (out []byte, said [][]string) {
	t.Helper()
	cmd := exec.Command(gdb, args...)
	cmd.Env = append(os.Environ(), "SHELL=/bin/sh")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("gdb: %v\n%s", err, out)
	}
	return out, regexp.MustCompile(`(?s)\n@@(.*?)@@\n`).FindAllStringSubmatch(string(out), -1)
}

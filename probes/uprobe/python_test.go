package uprobe

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/lang/python"
	"endoscope/probes/process"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/decode"
	"endoscope/probes/uprobe/internal/testplan"
	"endoscope/probes/usdt"
)

// pythonProgram counts its own calls, in C so that counting is no call of Python: of
// functions that call themselves, that are left by exceptions, that are called by C and by
// four threads, of generators and coroutines each time that they are resumed. It also prints
// how long naps took, seen from inside and from outside.
const pythonProgram = `
import asyncio, itertools, os, sys, threading, time
names = "fib raises through rec limit key method prop __add__ tick numbers closed awaits <lambda> <listcomp> nap outer größe child"
count = {name: itertools.count() for name in names.split()}
seen = {name: counter.__next__ for name, counter in count.items()}
caught = 0
naps = []
def fib(n):
    seen["fib"]()
    return n if n < 2 else fib(n-1) + fib(n-2)
def raises(i):
    seen["raises"]()
    if i % 2 == 0: raise ValueError("even")
def through(i):
    seen["through"]()
    raises(i)
def rec(n):
    seen["rec"]()
    if n: rec(n-1)
def limit(n): # a call of C could fail in the last one
    global deepest
    deepest = n
    limit(n + 1)
def key(x):
    seen["key"]()
    return -x
class Shape:
    def method(self, *, by=1): seen["method"]()
    @property
    def prop(self): seen["prop"]()
    def __add__(self, other): seen["__add__"]()
def tick(): seen["tick"]()
def ticks():
    for _ in range(200): tick()
def numbers(n):
    for i in range(n):
        seen["numbers"]()
        yield i
    seen["numbers"]()
def closed():
    try:
        while True:
            seen["closed"]()
            try: yield 1
            except ValueError: pass
    finally: seen["closed"]()
async def awaits(n):
    for _ in range(n):
        seen["awaits"]()
        await asyncio.sleep(0)
    seen["awaits"]()
def nap():
    seen["nap"]()
    begin = time.perf_counter_ns()
    time.sleep(0.002)
    return time.perf_counter_ns() - begin
def outer():
    seen["outer"]()
    begin = time.perf_counter_ns()
    inside = nap()
    naps.append((inside, time.perf_counter_ns() - begin))
def größe(): seen["größe"]()
def child(): seen["child"]()
async def several(): await asyncio.gather(*(awaits(3) for _ in range(4)))
def work():
    global caught
    fib(12)
    for i in range(20):
        try: through(i)
        except ValueError: caught += 1
    rec(500)
    try: limit(1)
    except RecursionError: caught += 1
    sorted(range(9), key=key)
    list(map(key, range(5)))
    s = Shape()
    for _ in range(7): s.method(by=2); s.prop; s + s
    list(map(lambda x: seen["<lambda>"](), range(6)))
    for _ in range(3): [seen["<listcomp>"]() for _ in (1,)]
    threads = []
    for _ in range(4): threads.append(threading.Thread(target=ticks))
    for t in threads: t.start()
    for t in threads: t.join()
    list(numbers(5))
    def outside(): yield from numbers(4)
    list(outside())
    g = closed()
    next(g), next(g), g.throw(ValueError()), g.close()
    asyncio.run(several())
    for _ in range(5): outer()
    größe()
def main():
    print("ready", flush=True)
    sys.stdin.readline()
    work()
    if os.fork() == 0:
        for _ in range(5): child()
        os._exit(0)
    os.wait()
    for inside, outside in naps: print("nap", inside, outside)
    said = {name: next(counter) for name, counter in count.items()} | {"limit": deepest}
    print(" ".join(f"{name} {n}" for name, n in said.items()), flush=True)
main()
`

// python311 returns an interpreter of the version that reports entries only with lines.
func python311(t testing.TB) string {
	t.Helper()
	path := testenv.NeedProgram(t, "/usr/bin/python3.11")
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if list, err := usdt.Probes(f); err != nil || !slices.ContainsFunc(list, func(p usdt.Probe) bool { return p.String() == "usdt:python:function__entry" }) {
		testenv.Skip(t, "needs a python3.11 built --with-dtrace")
	}
	return path
}

// runPython starts a program in an interpreter, and returns the name of its file.
func runPython(t testing.TB, interpreter, text string) (*running, string) {
	t.Helper()
	script := filepath.Join(t.TempDir(), "app.py")
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return run(t, interpreter, script), script
}

// ofPython is an acquisition of all functions of a file, for which lines may be traced.
func ofPython(stream string, t plan.Target, script string, cols ...string) *plan.Acquire {
	a := testplan.Acquire(stream, t, testplan.Is(plan.SelectModule, script), cols...)
	a.Settings.PythonLines = true
	return a
}

// Each call is reported once, however it begins and ends.
func TestPythonFunctions(t *testing.T) {
	testenv.NeedUprobes(t)
	interpreter := python311(t)
	for _, stream := range []string{catalog.FunctionStart, catalog.FunctionEnd, catalog.FunctionDuration} {
		t.Run(stream, func(t *testing.T) {
			p := provider(t, Options{})
			r, script := runPython(t, interpreter, pythonProgram)
			spec := ofPython(stream, r.target(), script, "timestamp", "function_name", "class", "module", "tid")
			spec.Settings.PythonLines = stream != catalog.FunctionEnd
			_, got := start(t, p, spec)
			want := said(t, r.finish(success))
			got.wait(t)
			if want["fib"] < 100 || want["limit"] < 100 || want["awaits"] != 16 {
				t.Fatalf("the program counted %v", want)
			}
			delete(want, "child") // the child counted, too, but its memory is its own
			if diff := cmp.Diff(want, ofNames(tally(got.strings("function_name")), want)); diff != "" {
				t.Error(diff)
			}
			if modules := tally(got.strings("module")); len(modules) != 1 || modules[script] == 0 {
				t.Errorf("rows by module: %v", modules)
			}
			if len(got.lost) > 0 || got.counts["nesting"] > 0 || got.counts["arguments that could not be read"] > 0 {
				t.Errorf("lost %v, counted %v", got.lost, got.counts)
			}
		})
	}
}

// A child that the target forks is observed if children are followed.
func TestPythonChildren(t *testing.T) {
	testenv.NeedUprobes(t)
	interpreter := python311(t)
	for _, follow := range []bool{false, true} {
		for _, stream := range []string{catalog.FunctionDuration, catalog.FunctionEnd} {
			p := provider(t, Options{})
			r, script := runPython(t, interpreter, pythonProgram)
			target := r.target()
			target.Follow = follow
			_, got := start(t, p, ofPython(stream, target, script, "timestamp", "function_name", "pid"))
			want := said(t, r.finish(success))["fib"]
			got.wait(t)
			names := tally(got.strings("function_name"))
			children := 0
			if follow {
				children = 5
			}
			if names["child"] != children || names["fib"] != want {
				t.Errorf("%s, follow %v: %d calls of child, want %d; %d of fib, want %d", stream, follow, names["child"], children, names["fib"], want)
			}
		}
	}
}

// The duration of a call is between those that the function and its caller measure.
func TestPythonDurations(t *testing.T) {
	testenv.NeedUprobes(t)
	p := provider(t, Options{})
	r, script := runPython(t, python311(t), pythonProgram)
	spec := ofPython(catalog.FunctionDuration, r.target(), script, "timestamp", "function_name", "start_time", "duration")
	spec.Select = testplan.Call("and", spec.Select, testplan.Named("nap"))
	_, got := start(t, p, spec)
	lines := r.finish(success)
	got.wait(t)
	var naps [][2]int64
	for _, line := range lines {
		if f := strings.Fields(line); f[0] == "nap" {
			inside, _ := strconv.ParseInt(f[1], 10, 64)
			outside, _ := strconv.ParseInt(f[2], 10, 64)
			naps = append(naps, [2]int64{inside, outside})
		}
	}
	if len(got.rows) != 5 || len(naps) != 5 {
		t.Fatalf("%d rows, and the program measured %v", len(got.rows), naps)
	}
	for i, row := range got.rows {
		if d := row[3].I; d < naps[i][0] || d > naps[i][1] || row[0].I-row[2].I != d {
			t.Errorf("call %d took %d ns, from %d to %d; the program measured %v", i, d, row[2].I, row[0].I, naps[i])
		}
	}
}

// Of the calls of a thread that are nested deeper than can be followed there are the entries,
// and what needs their returns is counted.
func TestPythonNesting(t *testing.T) {
	testenv.NeedUprobes(t)
	interpreter := python311(t)
	const program = `
import sys
sys.setrecursionlimit(5000)
def deep(n): return n and deep(n - 1)
print("ready", flush=True)
sys.stdin.readline()
deep(2999)
deep(9)
`
	for stream, want := range map[string]int{catalog.FunctionStart: 3010, catalog.FunctionEnd: 3010, catalog.FunctionDuration: 1034} {
		p := provider(t, Options{})
		r, script := runPython(t, interpreter, program)
		_, got := start(t, p, ofPython(stream, r.target(), script, "timestamp", "function_name"))
		r.finish(success)
		got.wait(t)
		if n := tally(got.strings("function_name"))["deep"]; n != want || n+int(got.counts["nesting"]) != 3010 {
			t.Errorf("%s: %d rows, want %d; lost %v, counted %v", stream, n, want, got.lost, got.counts)
		}
	}
}

// In a thread's sequence each function that is entered is left, in reverse order.
func TestPythonSequence(t *testing.T) {
	testenv.NeedUprobes(t)
	p := provider(t, Options{})
	r, script := runPython(t, python311(t), pythonProgram)
	_, got := start(t, p, ofPython(catalog.FunctionCall, r.target(), script, "timestamp", "tid", "event", "function_name"))
	want := said(t, r.finish(success))
	got.wait(t)
	delete(want, "child")
	stacks, entered := map[int64][]string{}, map[string]int{}
	for i, row := range got.rows {
		tid, name := row[1].I, row[3].S
		switch stack := stacks[tid]; row[2].S {
		case decode.EventEnter:
			stacks[tid] = append(stack, name)
			entered[name]++
		case decode.EventLeave:
			if len(stack) == 0 || stack[len(stack)-1] != name {
				t.Fatalf("row %d leaves %s, the stack is %v", i, name, stack)
			}
			stacks[tid] = stack[:len(stack)-1]
		default:
			t.Fatalf("row %d: %s of %s", i, row[2].S, name)
		}
	}
	if diff := cmp.Diff(want, ofNames(entered, want)); diff != "" {
		t.Error(diff)
	}
	for tid, stack := range stacks {
		if len(stack) > 0 {
			t.Errorf("thread %d has not left %v", tid, stack)
		}
	}
}

// The counters by which an interpreter knows what it has to report are zero again when a
// query ends. That of lines is only raised in the target.
func TestPythonCountersAreLowered(t *testing.T) {
	testenv.NeedUprobes(t)
	interpreter := python311(t)
	p := provider(t, Options{})
	r, script := runPython(t, interpreter, pythonProgram)
	pid := r.cmd.Process.Pid
	target := r.target()
	target.Follow = true // so that the probes are those of all processes
	src, got := start(t, p, ofPython(catalog.FunctionDuration, target, script, "timestamp"))
	other, _ := runPython(t, interpreter, pythonProgram)
	if lines := pythonCounters(t, interpreter, other.cmd.Process.Pid)["usdt:python:line"]; lines != 0 {
		t.Errorf("another process traces lines: %d", lines)
	}
	other.finish(success)
	if raised := pythonCounters(t, interpreter, pid); raised["usdt:python:line"] == 0 || raised["usdt:python:function__entry"] == 0 || raised["usdt:python:function__return"] == 0 {
		t.Errorf("counters while the query runs: %v", raised)
	}
	src.Stop()
	got.wait(t)
	for name, n := range pythonCounters(t, interpreter, pid) {
		if n != 0 {
			t.Errorf("%s: %d after the query", name, n)
		}
	}
	r.finish(success)
}

// pythonCounters reads the semaphores of an interpreter's marked places.
func pythonCounters(t *testing.T, interpreter string, pid int) map[string]uint16 {
	t.Helper()
	f, err := os.Open(interpreter)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	image, err := elf.NewFile(f)
	if err != nil {
		t.Fatal(err)
	}
	list, err := usdt.Probes(f)
	if err != nil {
		t.Fatal(err)
	}
	mappings, err := process.Modules(pid)
	if err != nil {
		t.Fatal(err)
	}
	bias := uint64(0)
	for _, load := range image.Progs {
		if load.Type == elf.PT_LOAD && load.Flags&elf.PF_X != 0 && image.Type == elf.ET_DYN {
			i := slices.IndexFunc(mappings, func(m process.Mapping) bool { return m.Path == interpreter })
			bias = mappings[i].Start - load.Vaddr
		}
	}
	out := map[string]uint16{}
	for _, p := range list {
		for _, load := range image.Progs {
			if load.Type == elf.PT_LOAD && load.Flags&elf.PF_W != 0 && load.Off <= p.Semaphore && p.Semaphore < load.Off+load.Filesz {
				var b [2]byte
				if process.ReadMemory(pid, b[:], bias+load.Vaddr+p.Semaphore-load.Off) != len(b) {
					t.Fatalf("the counter of %s cannot be read", p)
				}
				out[p.String()] = binary.LittleEndian.Uint16(b[:])
			}
		}
	}
	return out
}

// What an interpreter does not report is refused, with what can be done instead.
func TestPythonRefused(t *testing.T) {
	testenv.NeedUprobes(t)
	interpreter := python311(t)
	p := provider(t, Options{})
	prepare := func(a *plan.Acquire) error {
		src, err := p.Prepare(context.Background(), a)
		if err == nil {
			src.Stop()
		}
		return err
	}
	r, script := runPython(t, interpreter, pythonProgram)
	for _, stream := range []string{catalog.FunctionStart, catalog.FunctionDuration, catalog.FunctionCall} {
		a := ofPython(stream, r.target(), script, "timestamp")
		a.Settings.PythonLines = false
		refused(t, prepare(a), "CPython 3.11 reports the entries of functions only while it traces lines, which makes its Python code some ten times slower", "SET python_entries = 'lines'")
	}
	for _, column := range []string{"arg0", "retval", "cpu_time", "self_time", "receiver_class", "stack", "caller"} {
		refused(t, prepare(ofPython(catalog.FunctionDuration, r.target(), script, column)), "calls of functions of Python have no column "+column, "")
	}
	refused(t, prepare(ofPython(catalog.FunctionDuration, r.target(), script, "timestamp", "depth")), "the depth of calls of functions of Python is known only if all of them", "")
	refused(t, prepare(ofPython(catalog.FunctionEnd, r.target(), "app.py", "timestamp")), "no module is called 'app.py': modules of Python are files with their folders", "module LIKE '%/app.py'")
	classes := ofPython(catalog.FunctionEnd, r.target(), script, "timestamp")
	classes.Select = testplan.Call("and", classes.Select, testplan.Is(plan.SelectClass, "Shape"))
	refused(t, prepare(classes), "the classes of functions of Python are not known", "choose functions by function_name and module")

	// Without a module the names are those of the interpreter's own functions.
	refused(t, prepare(testplan.Acquire(catalog.FunctionEnd, r.target(), testplan.Named("fib"), "timestamp")), "no function named fib in python3.11", "python3.11 runs the functions of programs in an interpreter")
	if err := prepare(testplan.Acquire(catalog.FunctionEnd, r.target(), testplan.Call("and", testplan.Named("PyObject_Call"), testplan.Is(plan.SelectModule, filepath.Base(interpreter))), "timestamp")); err != nil {
		t.Errorf("a function of the interpreter: %v", err)
	}
	r.finish(success)

	silent := filepath.Join(t.TempDir(), "python3.11")
	testenv.Output(t, "objcopy", "--remove-section", ".note.stapsdt", interpreter, silent)
	r, script = runPython(t, silent, pythonProgram)
	refused(t, prepare(ofPython(catalog.FunctionEnd, r.target(), script, "timestamp")), silent+" (CPython 3.11) was built without places at calls of functions", python.Hint)
	r.finish(success)

	r = run(t, testenv.CompileCText(t, prelude+"int main(void) { ready(); }\n", "-O1"))
	refused(t, prepare(ofPython(catalog.FunctionEnd, r.target(), script, "timestamp")), "no process of the target runs CPython", fmt.Sprintf("the target runs %s", r.cmd.Path))
	r.finish(success)
}

// BenchmarkPythonCalls measures what a call of Python, and a turn of a loop, cost in CPython
// 3.11 while its functions are observed: the processor time of the program.
func BenchmarkPythonCalls(b *testing.B) {
	testenv.NeedUprobes(b)
	interpreter := python311(b)
	for _, stream := range []string{"", catalog.FunctionEnd, catalog.FunctionDuration} {
		b.Run("observed="+stream, func(b *testing.B) {
			p := provider(b, Options{})
			r, script := runPython(b, interpreter, `
import sys, time
def f(): pass
def calls(n):
    for _ in range(n): f()
def loop(n):
    x = 0
    for i in range(n): x += i * 2
def ns(f, n):
    begin = time.process_time_ns()
    f(n)
    return (time.process_time_ns() - begin) / n
print("ready", flush=True)
for line in sys.stdin:
    if line == "go\n": break
    n = int(line)
    print(ns(calls, n), ns(loop, n), flush=True)
`)
			if stream != "" {
				src, _ := start(b, p, ofPython(stream, r.target(), script, "timestamp"))
				defer src.Stop()
			}
			n := max(b.N, 1000)
			fmt.Fprintln(r.in, n)
			var call, turn float64
			if _, err := fmt.Sscan(r.line(), &call, &turn); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(call, "ns/call")
			b.ReportMetric(turn, "ns/turn")
			b.ReportMetric(0, "ns/op")
		})
	}
}

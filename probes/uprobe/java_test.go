package uprobe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/bpf"
	"endoscope/probes/lang/java"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/decode"
	"endoscope/probes/uprobe/internal/testplan"
)

// javaProgram calls methods and prints how often: some recursive, some often enough to
// be compiled, some left by exceptions, some from several threads.
const javaProgram = `
package app;
import java.util.concurrent.atomic.AtomicLong;
public class Main {
	static long fibs, hots, throwing, caught, ticks, overs;
	interface Shape { double area(); }
	static class Square implements Shape {
		static final AtomicLong made = new AtomicLong(), asked = new AtomicLong();
		Square() { made.incrementAndGet(); }
		public double area() { asked.incrementAndGet(); return 4; }
	}
	static long fib(int n) { fibs++; return n < 2 ? n : fib(n - 1) + fib(n - 2); }
	static class Ticker extends Thread {
		static int made;
		Ticker() { made++; }
		public void run() { for (int k = 0; k < 200; k++) tick(); }
	}
	static int over(int n) { overs++; return n; }
	static int over(String s, long[] l) { overs++; return s.length(); }
	static long hot(long n) { hots++; return n * 31 + 7; }
	static void throwsSometimes(int i) { throwing++; if (i % 2 == 0) throw new IllegalStateException("even"); }
	static void through(int i) { throwsSometimes(i); }
	static synchronized void tick() { ticks++; }
	static void work() throws Exception {
		fib(14);
		long sum = 0;
		for (int i = 0; i < 20000; i++) sum = hot(sum);
		for (int i = 0; i < 100; i++) try { through(i); } catch (IllegalStateException e) { caught++; }
		for (int i = 0; i < 50; i++) new Square().area();
		for (int i = 0; i < 30; i++) over(i);
		for (int i = 0; i < 20; i++) over("text", null);
		Thread[] threads = new Thread[4];
		for (int i = 0; i < threads.length; i++) { threads[i] = new Ticker(); threads[i].start(); }
		for (Thread t : threads) t.join();
	}
	public static void main(String[] args) throws Exception {
		System.out.println("ready");
		System.in.read();
		work();
		String m = "app.Main.", square = "app.Main$Square.", ticker = "app.Main$Ticker.";
		System.out.println(m + "fib " + fibs + " " + m + "hot " + hots + " " + m + "throwsSometimes " + throwing + " " + m + "through " + throwing +
			" " + m + "tick " + ticks + " " + m + "over " + overs + " " + m + "work 1 " + square + "area " + Square.asked + " " + square + "<init> " + Square.made +
			" " + square + "<clinit> 1 " + ticker + "<init> " + Ticker.made + " " + ticker + "run " + Ticker.made);
	}
}
`

// runJava compiles and starts the program.
func runJava(t *testing.T, flags ...string) *running {
	t.Helper()
	return runJavaBy(t, testenv.NeedProgram(t, "java"), flags...)
}

// runJavaBy is runJava with a given launcher.
func runJavaBy(t *testing.T, java string, flags ...string) *running {
	t.Helper()
	classes := testenv.CompileJavaText(t, "Main", javaProgram)
	return run(t, java, append(append([]string{"-Xmx64m"}, flags...), "-cp", classes, "app.Main")...)
}

// ownJava returns a copy of the launcher, with the installation next to it where it
// expects it: no other test's machine runs this executable.
func ownJava(t *testing.T) string {
	t.Helper()
	installed, err := filepath.EvalSymlinks(testenv.NeedProgram(t, "java"))
	if err != nil {
		t.Fatal(err)
	}
	home, dir := filepath.Dir(filepath.Dir(installed)), t.TempDir()
	for _, name := range []string{"lib", "conf"} {
		if err := os.Symlink(filepath.Join(home, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	return testenv.CopyFile(t, installed, filepath.Join(dir, "bin", "java"))
}

func ofApp() plan.Expr {
	return testplan.Call("like", testplan.SelectColumn(plan.SelectClass), testplan.Constant("app.Main%"))
}

// said returns the counts that the program printed.
func said(t *testing.T, lines []string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	fields := strings.Fields(lines[len(lines)-1])
	for i := 0; i+1 < len(fields); i += 2 {
		counts[fields[i]], _ = strconv.Atoi(fields[i+1])
	}
	return counts
}

// ofNames returns the counts in have of the functions that want contains.
func ofNames(have, want map[string]int) map[string]int {
	out := map[string]int{}
	for name := range want {
		out[name] = have[name]
	}
	return out
}

// Each call of a method is reported, interpreted or compiled, and whether it returns or
// throws.
func TestJavaMethods(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, stream := range []string{catalog.FunctionStart, catalog.FunctionEnd, catalog.FunctionDuration} {
		t.Run(stream, func(t *testing.T) {
			p := provider(t, Options{})
			r := runJava(t, "-XX:+ExtendedDTraceProbes")
			_, got := start(t, p, testplan.Acquire(stream, r.target(), ofApp(), "timestamp", "function_name", "class", "module", "tid"))
			want := said(t, r.finish(success))
			got.wait(t)
			if diff := cmp.Diff(want, ofNames(tally(got.strings("function_name")), want)); diff != "" {
				t.Error(diff)
			}
			classes := tally(got.strings("class"))
			if classes["app.Main$Square"] < 100 || classes["app.Main"] < 20000 || classes["app.Main$Ticker"] != 8 || len(classes) != 3 {
				t.Errorf("rows by class: %v", classes)
			}
			if modules := tally(got.strings("module")); len(modules) != 1 || modules["java"] == 0 {
				t.Errorf("rows by module: %v", modules)
			}
			if len(got.lost) > 0 {
				t.Errorf("lost %v", got.lost)
			}
		})
	}
}

// Overloaded methods have names with their parameters, and with their descriptors,
// besides the common name; a method is selected by any of them.
func TestJavaOverloads(t *testing.T) {
	testenv.NeedUprobes(t)
	p := provider(t, Options{})
	r := runJava(t, java.Switch)
	cases := []struct {
		sel  plan.Expr
		want map[string]int
	}{
		{testplan.Named("app.Main.over"), map[string]int{"app.Main.over": 50}},
		{testplan.Named("app.Main.over(int)"), map[string]int{"app.Main.over(int)": 30}},
		{testplan.Named("app.Main.over(Ljava/lang/String;[J)I", "app.Main.none"), map[string]int{"app.Main.over(Ljava/lang/String;[J)I": 20}},
		{testplan.Call("like", testplan.SelectColumn(plan.SelectName), testplan.Constant("app.Main.over(%")), map[string]int{"app.Main.over(int)": 30, "app.Main.over(java.lang.String,long[])": 20}},
	}
	var all []*record
	for _, c := range cases {
		_, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), c.sel, "timestamp", "function_name"))
		all = append(all, got)
	}
	r.finish(success)
	for i, got := range all {
		got.wait(t)
		if diff := cmp.Diff(cases[i].want, tally(got.strings("function_name"))); diff != "" {
			t.Error(diff)
		}
	}
}

// A name of no method of a loaded class is refused with a list of similar names. If the
// class is not loaded, a notice says so, because it may be loaded later.
func TestJavaNames(t *testing.T) {
	testenv.NeedUprobes(t)
	p := provider(t, Options{})
	r := runJava(t, java.Switch)
	prepare := func(sel plan.Expr) ([]string, error) {
		src, err := p.Prepare(context.Background(), testplan.Acquire(catalog.FunctionStart, r.target(), sel, "timestamp"))
		if err != nil {
			return nil, err
		}
		defer src.Stop()
		return src.Info().Notices, nil
	}
	for name, near := range map[string]string{"app.Main.wrok": "did you mean app.Main.work", "over": "did you mean app.Main.over", "app.Main.over(short)": "did you mean app.Main.over", "x": "a method is called by its class"} {
		_, err := prepare(testplan.Named(name))
		refused(t, err, "no method named "+name+" in java", near)
	}
	for _, c := range []struct {
		sel  plan.Expr
		want string
	}{
		{testplan.Named("app.Main.fib", "app.Main.hto"), "app.Main.hto (there is no such method; did you mean app.Main.hot"},
		{testplan.Named("app.Main$Square.area"), "no class app.Main$Square is loaded: app.Main$Square.area is observed once it is"},
		{testplan.Is(plan.SelectClass, "app.Nain"), "no method of a class that is loaded satisfies class = 'app.Nain': those of later ones are observed"},
	} {
		notices, err := prepare(c.sel)
		if err != nil || !strings.Contains(strings.Join(notices, "\n"), c.want) {
			t.Errorf("%v: %q, %v; want %q", c.sel, notices, err, c.want)
		}
	}
	r.finish(success)
}

// machine passes the probes of calls like a Java machine that has unloaded a class and
// placed the texts of another one at the same addresses.
var machine = strings.ReplaceAll(marks, `\"app\"`, `\"hotspot\"`) + `
static char class[200], method[200], signature[] = "()V";
#define TEXTS "8@%0 8@%1 8@%2 8@%3 8@%4 8@%5 8@%6"
#define OPERANDS "nor"(1L), "nor"(class), "nor"(classes), "nor"(method), "nor"(names), "nor"(signature), "nor"(3L)
NOINLINE void enter(long classes, long names) { MARK("method__entry", "0", TEXTS, OPERANDS); sink++; }
NOINLINE void leave(long classes, long names) { MARK("method__return", "0", TEXTS, OPERANDS); sink++; }
void name(const char *c, const char *m) {
	strcpy(class, c);
	strcpy(method, m);
}
void entering(const char *c, const char *m) {
	name(c, m);
	enter(strlen(c), strlen(m));
}
void leaving(const char *c, const char *m) {
	name(c, m);
	leave(strlen(c), strlen(m));
}
void play(const char *c, const char *m) {
	entering(c, m);
	leaving(c, m);
}
`

// A virtual thread may continue on a different thread than the one on which it entered a
// method: calls on carrier threads are not attributed to other calls, and events that
// need returns are reported as lost with this cause.
func TestJavaVirtualThreads(t *testing.T) {
	testenv.NeedUprobes(t)
	library := copyAs(t, testenv.CompileCText(t, machine, "-O1", "-shared", "-fPIC"), java.Library)
	program := testenv.CompileCText(t, prelude+`
void entering(const char *c, const char *m);
void leaving(const char *c, const char *m);
#define RUN "jdk/internal/vm/Continuation", "run"
int main(void) {
	ready();
	for (int i = 0; i < 3; i++) { entering("app/V", "nap"); leaving("app/V", "nap"); }
	for (int i = 0; i < 5; i++) {
		entering(RUN); entering("app/V", "nap"); leaving(RUN);
		entering(RUN); entering("app/V", "nap"); leaving("app/V", "nap"); leaving(RUN);
		entering(RUN); leaving("app/V", "nap"); leaving(RUN);
	}
}
`, "-O1", "-Wl,--no-as-needed", "-Wl,-rpath,"+filepath.Dir(library), library)
	for _, c := range []struct {
		stream     string
		rows, lost int
	}{{catalog.FunctionStart, 13, 0}, {catalog.FunctionDuration, 3, 10}, {catalog.FunctionCall, 6, 10}} {
		p := provider(t, Options{})
		r := run(t, program, java.Switch)
		_, got := start(t, p, testplan.Acquire(c.stream, r.target(), testplan.Named("app.V.nap"), "timestamp"))
		r.finish(success)
		got.wait(t)
		if lost := got.lost["virtual threads of Java"]; len(got.rows) != c.rows || lost < uint64(c.lost) || c.lost == 0 && lost > 0 {
			t.Errorf("%s: %d rows and %d lost, want %d and at least %d", c.stream, len(got.rows), lost, c.rows, c.lost)
		}
	}
}

// Texts at the former addresses of another method's texts belong to the new method,
// whether or not the other was selected.
func TestJavaTextsInTheSamePlace(t *testing.T) {
	testenv.NeedUprobes(t)
	library := copyAs(t, testenv.CompileCText(t, machine, "-O1", "-shared", "-fPIC"), java.Library)
	far := strings.Repeat("far/", 40)
	program := testenv.CompileCText(t, prelude+fmt.Sprintf(`
void play(const char *c, const char *m);
int main(void) {
	ready();
	for (int i = 0; i < 10; i++) {
		play("lib/Aa", "get"); play("app/Aa", "get"); play("app/Ba", "get"); play("app/Ba", "set");
		play("%[1]sA", "get"); play("%[1]sB", "get");
	}
}
`, far), "-O1", "-Wl,--no-as-needed", "-Wl,-rpath,"+filepath.Dir(library), library)
	p := provider(t, Options{})
	r := run(t, program, "-XX:+ExtendedDTraceProbes")
	_, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Call("not", testplan.Call("like", testplan.SelectColumn(plan.SelectClass), testplan.Constant("lib.%"))), "timestamp", "class", "function_name"))
	r.finish(success)
	got.wait(t)
	calls := map[string]int{}
	for _, row := range got.rows {
		calls[row[2].S]++
	}
	far = strings.ReplaceAll(far, "/", ".")
	want := map[string]int{"app.Aa.get": 10, "app.Ba.get": 10, "app.Ba.set": 10, far + "A.get": 10, far + "B.get": 10}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("%s\nlost %v, counted %v", diff, got.lost, got.counts)
	}
}

// When there is no number left for a method, its calls are lost with this cause, and
// none is attributed to another method.
func TestJavaMethodsTooMany(t *testing.T) {
	testenv.NeedUprobes(t)
	p := provider(t, Options{})
	r := runJava(t, "-XX:+ExtendedDTraceProbes")
	src, got := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), ofApp(), "timestamp", "function_name"))
	p.mu.Lock()
	err := p.active[src.(*source)].Objects.Variables[bpf.FunctionVarMethodsKnown].Set(uint32(decode.MaxMethods))
	p.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	known := said(t, r.finish(success))
	got.wait(t)
	calls := 0
	for _, n := range known {
		calls += n
	}
	if lost := got.lost["too many methods of Java"]; lost < uint64(calls) {
		t.Errorf("%d calls are lost, want at least the %d of the program's methods: %v", lost, calls, got.lost)
	}
	for _, row := range got.rows {
		if _, counted := known[row[1].S]; counted {
			t.Fatalf("a call of %s has a row", row[1].S)
		}
	}
}

// In a thread's sequence each method that is entered is left, in reverse order.
func TestJavaSequence(t *testing.T) {
	testenv.NeedUprobes(t)
	p := provider(t, Options{})
	r := runJava(t, "-XX:+ExtendedDTraceProbes")
	_, got := start(t, p, testplan.Acquire(catalog.FunctionCall, r.target(), ofApp(), "timestamp", "tid", "event", "class", "function_name"))
	want := said(t, r.finish(success))
	got.wait(t)
	stacks := map[int64][]string{}
	entered := map[string]int{}
	for i, row := range got.rows {
		tid, name := row[1].I, row[4].S
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

// Durations of methods enclose those of what they call.
func TestJavaDurations(t *testing.T) {
	testenv.NeedUprobes(t)
	p := provider(t, Options{})
	r := runJava(t, "-XX:+ExtendedDTraceProbes")
	_, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Call("and", testplan.Named("app.Main.through", "app.Main.throwsSometimes"), testplan.Is(plan.SelectClass, "app.Main")), "timestamp", "function_name", "start_time", "duration"))
	r.finish(success)
	got.wait(t)
	var inner [3]int64
	for i, row := range got.rows {
		at, name, start, lasted := row[0].I, row[1].S, row[2].I, row[3].I
		if at-start != lasted || lasted <= 0 {
			t.Fatalf("row %d: %s from %d to %d took %d", i, name, start, at, lasted)
		}
		if name == "app.Main.throwsSometimes" {
			inner = [3]int64{at, start, lasted}
		} else if start > inner[1] || at < inner[0] {
			t.Fatalf("row %d: %s from %d to %d does not enclose %v", i, name, start, at, inner)
		}
	}
	if len(got.rows) != 200 {
		t.Errorf("%d rows, want 200", len(got.rows))
	}
}

// A machine that starts later and does not report methods is counted.
func TestJavaSilentNewcomer(t *testing.T) {
	testenv.NeedUprobes(t)
	p := provider(t, Options{})
	exe := ownJava(t)
	r := runJavaBy(t, exe, "-XX:+ExtendedDTraceProbes")
	src, got := start(t, p, testplan.Acquire(catalog.FunctionStart, plan.Target{Exes: []string{exe}}, testplan.Named("app.Main.fib"), "timestamp"))
	telling, silent := runJavaBy(t, exe, "-XX:+ExtendedDTraceProbes"), runJavaBy(t, exe)
	testenv.Until(t, "the silent machine is counted", func() bool { return len(got.causes()) > 0 })
	silent.finish(success)
	telling.finish(success)
	r.finish(success)
	src.Stop()
	got.wait(t)
	if len(got.lost) != 1 || got.lost[silentMachines] != 1 {
		t.Errorf("lost %v", got.lost)
	}
}

// A machine that does not report its calls is refused, with a hint how to enable it.
func TestJavaRefused(t *testing.T) {
	testenv.NeedUprobes(t)
	p := provider(t, Options{})
	r := runJava(t)
	_, err := p.Prepare(context.Background(), testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("app.Main.fib"), "timestamp"))
	if err == nil || !strings.Contains(err.Error(), "no function named app.Main.fib in java") || !strings.Contains(err.Error(), java.Hint) {
		t.Errorf("without probes of calls: %v", err)
	}
	silent := r
	r = runJava(t, "-XX:+ExtendedDTraceProbes")
	both := plan.Target{PIDs: append(silent.target().PIDs, r.target().PIDs...)}
	src, err := p.Prepare(context.Background(), testplan.Acquire(catalog.FunctionStart, both, testplan.Named("app.Main.fib"), "timestamp"))
	if err != nil {
		t.Fatal(err)
	}
	if notices, want := strings.Join(src.Info().Notices, "\n"), fmt.Sprintf("no methods are reported by process %d: %s", silent.cmd.Process.Pid, java.Hint); !strings.Contains(notices, want) {
		t.Errorf("of two machines one does not tell methods: %q, want %q", notices, want)
	}
	src.Stop()
	silent.finish(success)
	for _, column := range []string{"arg0", "retval", "cpu_time", "receiver_class"} {
		_, err := p.Prepare(context.Background(), testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("app.Main.fib"), column))
		if want := fmt.Sprintf("calls of methods of Java have no column %s", column); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", column, err)
		}
	}
	for _, stream := range []string{catalog.FunctionStart, catalog.FunctionDuration, catalog.FunctionCall} {
		for _, column := range []string{"caller", "stack"} {
			_, err := p.Prepare(context.Background(), testplan.Acquire(stream, r.target(), ofApp(), "timestamp", column))
			var refused *plan.Error
			if !errors.As(err, &refused) || !strings.Contains(refused.Error(), "calls of methods of Java have no column "+column+": their frames") || !strings.Contains(refused.Hint, "java_stacks") {
				t.Errorf("%s of %s: %v", column, stream, err)
			}
		}
	}
	// The machine's own functions, and those of its launcher, are in modules.
	src, err = p.Prepare(context.Background(), testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Call("and", testplan.Named("JNI_CreateJavaVM"), testplan.Is(plan.SelectModule, java.Library)), "timestamp"))
	if err != nil {
		t.Fatal(err)
	}
	src.Stop()
	r.finish(success)
}

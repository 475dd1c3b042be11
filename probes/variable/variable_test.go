package variable

import (
	"context"
	"endoscope/probes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/testenv"
)

// Every write of a program is a row, with the new value and the function that
// wrote, in each of its threads, also those created later, and in no child.
func TestEveryWriteIsARow(t *testing.T) { reported(t, everyWriteIsARow) }

func everyWriteIsARow(t testing.TB) {
	testenv.NeedWatchpoints(t)
	c := testenv.CompileC(t, "testdata/vars.c", "-O1", "-g", "-pthread")
	cpp := testenv.CompileC(t, "testdata/vars.cc", "-O1", "-g")
	golang := testenv.CompileGo(t, "testdata/govars")
	for _, one := range []struct {
		program   string
		variables string
		commands  string
		want      string // variable=text by function
	}{
		{c, "total shade where.deep ratio", "a5,w-3,n10,f100,a1,p5,p6,p1,m9,r3,w2",
			"total=5 add,total=2 add,total=12 add,total=13 add,shade=GREEN paint,shade=BLUE paint,shade=1 paint,where.deep=-9 move,ratio=0.75 measure,total=15 add"},
		{c, "where.x hidden counted::calls", "m4,h-1,c,c", "where.x=4 move,hidden=-1 hide,counted::calls=1 counted,counted::calls=2 counted"},
		{cpp, "shop::Stock::items shop::stock.left", "t3,t1", "shop::stock.left=1 shop::Stock::take,shop::Stock::items=97 shop::Stock::take,shop::stock.left=0 shop::Stock::take,shop::Stock::items=96 shop::Stock::take"},
		{golang, "main.counter main.mode main.settled.port main.settled.limit.rate", "c4,g3,g-1,s8080,m2",
			"main.counter=4 main.count,main.counter=7 main.count,main.counter=6 main.count,main.settled.port=8080 main.(*config).set,main.settled.limit.rate=1010 main.(*config).set,main.mode=2 main.enter"},
	} {
		r := run(t, one.program)
		got, stop := observe(t, asked(r.pid, 0, strings.Fields(one.variables)...))
		r.tell(t, strings.Split(one.commands, ",")...)
		stop()
		var text []string
		threads := map[string]bool{}
		for _, row := range got.rows {
			text = append(text, fmt.Sprintf("%s=%s %s", row["var_name"], row["var_text"], row["function_name"]))
			threads[row["tid"]] = true
			if row["pid"] != fmt.Sprint(r.pid) || row["module"] != "target" {
				t.Errorf("a row is %v", row)
			}
		}
		if s := strings.Join(text, ","); s != one.want {
			t.Errorf("%s:\n%s, want\n%s", one.variables, s, one.want)
		}
		if one.program == c && strings.HasPrefix(one.variables, "total") && len(threads) != 3 {
			t.Errorf("%d threads wrote", len(threads))
		}
	}
}

// Samples have the current value, of each kind, without a trap.
func TestSamples(t *testing.T) {
	testenv.NeedUprobes(t)
	c := testenv.CompileC(t, "testdata/vars.c", "-O1", "-g", "-pthread")
	golang := testenv.CompileGo(t, "testdata/govars")
	for _, one := range []struct {
		program, command string
		before, after    map[string]string // variable: var_value var_real var_text
	}{
		{c, "m9", map[string]string{"there->x": "1 1 1", "there.tag": "- - here", "where.x": "1 1 1", "where.y": "2 2 2", "where.tag": "- - here", "list[2]": "12 12 12", "small": "200 200 200", "yes": "1 1 true", "narrow": "- 0.25 0.25",
			"hidden": "3 3 3", "shade": "0 0 RED"}, map[string]string{"where.x": "9 9 9", "there->x": "9 9 9"}},
		{c, "s", map[string]string{"where.tag": "- - here"}, map[string]string{"where.tag": "- - moved"}},
		{golang, "s8080", map[string]string{"main.settled.name": "- - first", "main.settled.debug": "0 0 false"}, map[string]string{"main.settled.name": "- - port 8080"}},
	} {
		r := run(t, one.program)
		var names []string
		for name := range one.before {
			names = append(names, name)
		}
		got, stop := observe(t, asked(r.pid, 2*time.Millisecond, names...))
		now := func() map[string]string {
			n := got.len()
			got.await(t, n+3*len(names))
			got.mu.Lock()
			defer got.mu.Unlock()
			values := map[string]string{}
			for _, row := range got.rows {
				text := ""
				for _, column := range []string{"var_value", "var_real", "var_text"} {
					if v, ok := row[column]; ok {
						text += " " + v
					} else {
						text += " -"
					}
				}
				values[row["var_name"]] = text[1:]
			}
			return values
		}
		have := now()
		for name, want := range one.before {
			if have[name] != want {
				t.Errorf("%s is %q, want %q", name, have[name], want)
			}
		}
		r.tell(t, one.command)
		have = now()
		for name, want := range one.after {
			if have[name] != want {
				t.Errorf("after %s %s is %q, want %q", one.command, name, have[name], want)
			}
		}
		stop()
	}
}

// The last writer is known although the process has ended before the ring is
// read.
func TestWriterOfProcessThatHasEnded(t *testing.T) { reported(t, writerOfProcessThatHasEnded) }

func writerOfProcessThatHasEnded(t testing.TB) {
	testenv.NeedWatchpoints(t)
	r := run(t, testenv.CompileCText(t, `
#include <stdio.h>
volatile int total;
__attribute__((noinline)) static void finish(int n) { total = n; }
int main(void) { puts("ready"); fflush(stdout); getchar(); for (int i = 1; i <= 3; i++) finish(i); return 0; }`, "-O1", "-g"))
	got, stop := observe(t, asked(r.pid, 0, "total"))
	fmt.Fprintln(r.in)
	got.await(t, 3)
	stop()
	for i, row := range got.rows {
		if row["var_value"] != fmt.Sprint(i+1) || row["function_name"] != "finish" {
			t.Errorf("row %d: %v", i, row)
		}
	}
}

// A function that was compiled into its caller is the writer, where the debug information says so.
func TestWriterThatIsInlined(t *testing.T) { reported(t, writerThatIsInlined) }

func writerThatIsInlined(t testing.TB) {
	testenv.NeedWatchpoints(t)
	const text = `
#include <stdio.h>
volatile int total;
static inline __attribute__((always_inline)) void set(int n) { total = n; }
__attribute__((noinline)) static void finish(int n) { set(n * 3); }
int main(void) { puts("ready"); fflush(stdout); getchar(); finish(2); getchar(); return 0; }`
	for options, want := range map[string]string{"-O1 -g": "set", "-O1": "finish"} {
		r := run(t, testenv.CompileCText(t, text, strings.Fields(options)...))
		got, stop := observe(t, asked(r.pid, 0, "total"))
		fmt.Fprintln(r.in)
		got.await(t, 1)
		stop()
		if row := got.rows[0]; row["var_value"] != "6" || row["function_name"] != want {
			t.Errorf("%s: %v, want writer %s", options, row, want)
		}
	}
}

// Without debug information integers are found by the symbol table.
func TestSymbols(t *testing.T) { reported(t, symbols) }

func symbols(t testing.TB) {
	testenv.NeedWatchpoints(t)
	r := run(t, testenv.CompileC(t, "testdata/vars.c", "-O1", "-pthread"))
	got, stop := observe(t, asked(r.pid, 0, "total"))
	r.tell(t, "a7")
	stop()
	if len(got.rows) != 1 || got.rows[0]["var_value"] != "7" || got.rows[0]["function_name"] != "add" {
		t.Errorf("rows %v", got.rows)
	}
}

// What cannot be observed is refused with a helpful message.
func TestRefusals(t *testing.T) {
	testenv.NeedUprobes(t)
	r := run(t, testenv.CompileC(t, "testdata/vars.c", "-O1", "-g", "-pthread"))
	bare := run(t, testenv.CompileC(t, "testdata/vars.c", "-O1", "-pthread"))
	for _, c := range []struct {
		pid   int
		every time.Duration
		names string
		want  string
	}{
		{r.pid, 0, "", "variable_value needs the names of variables"},
		{r.pid, 0, "total hidden shade ratio small", "5 variables cannot be watched: a processor has 4 watchpoints"},
		{r.pid, 0, "totl", "target has no variable totl"},
		{r.pid, 0, "where", "it is a struct: ask for one of its fields, such as .x"},
		{r.pid, 0, "where.z", "point has no field z (it has x, y, tag, flag)"},
		{r.pid, 0, "where.flag", "flag is a bit field"},
		{r.pid, 0, "there->z", "point has no field z"},
		{r.pid, 0, "list", "it is an array: ask for one of its elements"},
		{r.pid, 0, "list[4]", "the array has 4 elements"},
		{r.pid, 0, "own", "each thread has one of its own"},
		{r.pid, 0, "where.tag", "a watchpoint covers 1, 2, 4 or 8 bytes"},
		{bare.pid, time.Second, "where.x", "no debug information (-g), which is needed for the fields of where"},
		{bare.pid, time.Second, "whera", "target has no debug information, without which only the variables of its symbol table are known"},
		{bare.pid, time.Second, "where", "without debug information (-g) only 1, 2, 4 and 8 are read"},
	} {
		_, err := New().Prepare(context.Background(), asked(c.pid, c.every, strings.Fields(c.names)...))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", c.names, err, c.want)
		}
	}
}

// Variables of a library that a process loads later are observed from then on;
// until then a notice names the library, and what may be meant.
func TestLibraryLoadedLater(t *testing.T) { reported(t, libraryLoadedLater) }

func libraryLoadedLater(t testing.TB) {
	testenv.NeedWatchpoints(t)
	library := testenv.CompileCText(t, "volatile long total; void add(long n) { total += n; }", "-O1", "-g", "-shared", "-fPIC")
	folder := t.TempDir()
	if err := os.Rename(library, filepath.Join(folder, "libadd.so")); err != nil {
		t.Fatal(err)
	}
	program := testenv.CompileCText(t, `
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
	char line[100];
	void (*add)(long) = 0;
	puts("ready"); fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		if (line[0] == 'l') add = dlsym(dlopen("`+filepath.Join(folder, "libadd.so")+`", RTLD_NOW), "add");
		else add(atol(line));
		puts("done"); fflush(stdout);
	}
}`, "-O1", "-ldl")
	inLibrary := func(pid int, every time.Duration, name string) *plan.Acquire {
		spec := asked(pid, every, "total")
		module := &plan.Col{Index: spec.Out.Index("module"), Name: "module", T: types.Varchar}
		spec.Filter = &plan.Call{Fn: "and", Args: []plan.Expr{spec.Filter, &plan.In{X: module, List: []plan.Const{{V: types.Str(name)}}}}}
		return spec
	}
	for _, every := range []time.Duration{0, time.Millisecond} {
		r := run(t, program)
		s, err := New().Prepare(context.Background(), inLibrary(r.pid, every, "libadd.so"))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := strings.Join(s.Info().Notices, ""), fmt.Sprintf("variables of process %d (target) are observed from when they are loaded: libadd.so is not loaded", r.pid); got != want {
			t.Errorf("notices %q, want %q", got, want)
		}
		s.Stop()
		got, stop := observe(t, inLibrary(r.pid, every, "libadd.so"))
		got.normal = []string{arrived}
		r.tell(t, "load")
		testenv.Until(t, "the library is watched", func() bool { return every > 0 && got.len() > 0 || got.has(arrived) })
		r.tell(t, "5", "6")
		got.await(t, 2)
		testenv.Until(t, "the last value is seen", func() bool { return every == 0 || got.row(got.len() - 1)["var_value"] == "11" })
		stop()
		if last := got.row(got.len() - 1); last["var_value"] != "11" || every == 0 && (got.len() != 2 || last["function_name"] != "add") {
			t.Errorf("%d rows, the last of them %v", got.len(), last)
		}
	}
	r := run(t, program)
	s, err := New().Prepare(context.Background(), inLibrary(r.pid, 0, "libc.so"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	if want := "libc.so is not loaded; loaded is libc.so.6"; !strings.Contains(strings.Join(s.Info().Notices, ""), want) {
		t.Errorf("notices %q, want %s", s.Info().Notices, want)
	}
	if _, err = New().Prepare(context.Background(), inLibrary(r.pid, 0, "targte")); err == nil || !strings.Contains(err.Error(), "targte is not loaded; loaded is target") {
		t.Errorf("error %v", err)
	}
}

// When all watchpoints are in use a query says so; when they are released the
// next query gets them, and the program's threads are not affected.
func TestAllTaken(t *testing.T) { reported(t, allTaken) }

func allTaken(t testing.TB) {
	testenv.NeedWatchpoints(t)
	r := run(t, testenv.CompileC(t, "testdata/vars.c", "-O1", "-g", "-pthread"))
	got, stop := observe(t, asked(r.pid, 0, "total", "shade", "ratio", "hidden"))
	s, err := New().Prepare(context.Background(), asked(r.pid, 0, "where.x"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(context.Background(), &record{}, probes.Options{}); err == nil || !strings.Contains(err.Error(), "has no watchpoint left") {
		t.Errorf("error %v", err)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	r.tell(t, "a1", "n2")
	stop()
	if len(got.rows) != 2 {
		t.Errorf("rows %v", got.rows)
	}
	got, stop = observe(t, asked(r.pid, 0, "where.x"))
	r.tell(t, "m1", "a1", "n2")
	stop()
	if len(got.rows) != 1 {
		t.Errorf("rows %v", got.rows)
	}
}

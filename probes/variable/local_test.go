package variable

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/testenv"
)

// local returns a specification of all columns for local variables.
func local(pid int, functions string, names ...string) *plan.Acquire {
	spec := asked(pid, 0, names...)
	in := &plan.In{X: &plan.Col{Index: types.Schema{Fields: table.Fields()}.Index("function_name"), Name: "function_name", T: types.Varchar}}
	for _, name := range strings.Fields(functions) {
		in.List = append(in.List, plan.Const{V: types.Str(name)})
	}
	spec.Filter = &plan.Call{Fn: "and", Args: []plan.Expr{spec.Filter, in}, T: types.Boolean}
	return spec
}

// told returns rows as variable=text, joined.
func told(got *record) string {
	var text []string
	for _, row := range got.rows {
		v, ok := row["var_text"]
		if !ok {
			v = "NULL"
		}
		text = append(text, row["var_name"]+"="+v)
	}
	return strings.Join(text, " ")
}

// A local variable is reported when it is first seen in a call, and whenever a
// line finds it changed: in C, C++ and Go, in registers and on the stack, in
// recursive calls, on stacks that move, and behind pointers.
func TestLocals(t *testing.T) {
	testenv.NeedUprobes(t)
	plain, optimised := testenv.CompileC(t, "testdata/locals.c", "-O0", "-g"), testenv.CompileC(t, "testdata/locals.c", "-O1", "-g")
	cpp := testenv.CompileC(t, "testdata/locals.cc", "-O0", "-g")
	kinds := testenv.CompileC(t, "testdata/locals.cc", "-O0", "-gdwarf-4", "-fdebug-types-section")
	golang, goPlain := testenv.CompileGo(t, "testdata/golocals"), testenv.CompileGo(t, "testdata/golocals", "-gcflags=-N -l")
	const serve = "c=RED tag=tag sum=0.5 name=? i=0 id=4 sum=6.5 i=1 id=5 sum=14 i=2 id=6 sum=23 i=3 name=tag-0 sum=139"
	for _, one := range []struct{ program, function, names, input, want string }{
		{plain, "fib", "n a b", "3", "n=3 n=2 n=1 a=1 n=0 b=0 a=1 n=1 b=1"},
		{plain, "collatz", "n steps", "4", "n=4 steps=0 n=2 steps=1 n=1 steps=2"},
		{plain, "serve", "sum id i c tag name", "4", serve},
		{plain, "serve", "r.path r->id r.weight r->next.path", "4", "r.path=/first r->id=4 r.weight=1.5 r->next.path=/second r.path=/second r->id=2 r.weight=0.25 r->next.path=NULL"},
		{plain, "fib collatz", "n", "2", "n=2 n=1 n=2 n=1 n=0"},
		{optimised, "fib", "n", "3", "n=3 n=2 n=1 n=0 n=1"},
		{optimised, "collatz", "n steps", "4", "n=4 steps=0 n=2 steps=1 n=1 steps=2"},
		{cpp, "shop::Till::add", "count label this->sum item.name many i", "2", "count=2 this->sum=0 item.name=apple label=apple i=0 label=apple+ i=1 label=apple++ i=2 many=false this->sum=14"},
		{cpp, "shop::Till::add", "label", "3", "label=apple label=apple+ label=apple++ label=apple+++ label=a label that is longer than what fits into the object: apple+++"},
		{kinds, "shop::Till::add", "label item.name this->sum", "0", "item.name=apple this->sum=0 label=apple"},
		{goPlain, "main.fib", "n a b", "3", "n=3 n=2 n=1 a=1 n=0 b=0 a=1 n=1 b=1"},
		{goPlain, "main.collatz", "n steps", "4", "steps=0 n=4 n=2 steps=1 n=1 steps=2"},
		{goPlain, "main.serve", "r.path r->next.path total text part.id", "4", "r.path=first r->next.path=second text=first total=4 part.id=2 text=SECOND total=6 part.id=NULL"},
		{goPlain, "main.deep", "n", "40", "n=40"},
		{golang, "main.fib", "n", "3", "n=3 n=2 n=1 n=0 n=1"},
		{golang, "main.deep", "n", "40", "n=40"},
	} {
		want := one.want
		for n := 39; n >= 0 && one.function == "main.deep"; n-- {
			want += fmt.Sprintf(" n=%d", n)
		}
		r := run(t, one.program)
		got, stop := observe(t, local(r.pid, one.function, strings.Fields(one.names)...))
		r.tell(t, one.input)
		stop()
		if s := told(got); s != want {
			t.Errorf("%s of %s:\n%s, want\n%s", one.names, one.function, s, want)
		}
		for _, row := range got.rows {
			if !slices.Contains(strings.Fields(one.function), row["function_name"]) || row["line"] == "" || row["tid"] == "" || row["module"] != "target" || row["pid"] != fmt.Sprint(r.pid) {
				t.Errorf("a row is %v", row)
			}
		}
	}
}

// Rows agree with a debugger on the same program: its watchpoints stop at each
// new value of a variable, its breakpoints at each call.
func TestLocalsAsDebuggerSeesThem(t *testing.T) { reported(t, localsAsDebuggerSeesThem) }

func localsAsDebuggerSeesThem(t testing.TB) {
	testenv.NeedWatchpoints(t)
	gdb := testenv.NeedProgram(t, "gdb")
	c := testenv.CompileC(t, "testdata/locals.c", "-O0", "-g")
	cpp := testenv.CompileC(t, "testdata/locals.cc", "-O0", "-g")
	const watched = "commands\nsilent\nprintf \"#%s=%s\\n\", %s\ncontinue\nend\n"
	watch := func(name, format string) string {
		// gdb does not report a value that the memory happened to have before.
		return fmt.Sprintf("set var %s = -123\nwatch %s\n"+watched, name, name, name, format, name)
	}
	for _, one := range []struct {
		program, function, names string
		script                   string
	}{
		{c, "fib", "n", "break fib\n" + fmt.Sprintf(watched, "n", "%ld", "n") + "run < $input > /dev/null\n"},
		{c, "collatz", "n steps", "break collatz\nrun < $input > /dev/null\n" + watch("n", "%u") + watch("steps", "%d") + "continue\n"},
		{c, "serve", "sum", "break serve\nrun < $input > /dev/null\n" + watch("sum", "%g") + "continue\n"},
		{c, "", "served", "break main\nrun < $input > /dev/null\nwatch served\n" + fmt.Sprintf(watched, "served", "%ld", "served") + "continue\n"},
		{cpp, "shop::Till::add", "this->sum", "break shop::Till::add\nrun < $input > /dev/null\nprintf \"#this->sum=%ld\\n\", this->sum\nwatch this->sum\n" +
			fmt.Sprintf(watched, "this->sum", "%ld", "this->sum") + "continue\n"},
	} {
		seen, out := seenByDebugger(t, gdb, one.program, one.script, "6\n")
		r := run(t, one.program)
		spec := local(r.pid, one.function, strings.Fields(one.names)...)
		if one.function == "" {
			spec = asked(r.pid, 0, one.names)
		}
		got, stop := observe(t, spec)
		r.tell(t, "6")
		stop()
		if s, want := told(got), strings.Join(seen, " "); s != want || len(seen) < 2 {
			t.Errorf("%s of %s:\n%s, and a debugger sees\n%s\n%s", one.names, one.function, s, want, out)
		}
	}
}

// seenByDebugger returns what gdb prints after a # at the beginning of a line,
// and all its output. In the script $input is a file with the program's input.
func seenByDebugger(t testing.TB, gdb, program, text, given string) (seen []string, out []byte) {
	t.Helper()
	dir := t.TempDir()
	input, script := filepath.Join(dir, "input"), filepath.Join(dir, "script")
	for path, text := range map[string]string{input: given, script: "set pagination off\nset confirm off\nset width 0\nhandle SIGURG nostop noprint pass\n" + strings.ReplaceAll(text, "$input", input)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), gdb, "-batch", "-nx", "-x", script, program)
	cmd.Env = append(os.Environ(), "SHELL=/bin/sh")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if bytes.Contains(out, []byte("SIGTRAP")) { // as a write without a report ends
		unreported.Add(1)
	}
	for line := range strings.Lines(string(out)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "#"); ok {
			seen = append(seen, text)
		}
	}
	return seen, out
}

// Unreadable variables are refused with a helpful message.
func TestLocalsRefused(t *testing.T) {
	testenv.NeedUprobes(t)
	plain, optimised := testenv.CompileC(t, "testdata/locals.c", "-O0", "-g"), testenv.CompileC(t, "testdata/locals.c", "-O2", "-g")
	bare, golang := testenv.CompileC(t, "testdata/locals.c", "-O0"), testenv.CompileGo(t, "testdata/golocals")
	for _, c := range []struct{ program, function, name, want string }{
		{plain, "fib", "m", "target has no variable m, and fib has no variable m (did you mean "},
		{plain, "serve", "r", ""},
		{plain, "serve", "r.idd", "request has no field idd"},
		{plain, "fob", "n", "target has no variable n, and no function fob with code of its own"},
		{plain, "serve", "c.x", "has no fields"},
		{bare, "fib", "n", "target has no debug information, which is needed for variables of functions: compile it with -g"},
		{optimised, "fib", "b", "b of fib was optimised away: compile it with -O0 or -Og"},
		{golang, "main.collatz", "steps", "-gcflags='-N -l'"},
	} {
		r := run(t, c.program)
		s, err := New().Prepare(t.Context(), local(r.pid, c.function, c.name))
		if err == nil {
			s.Stop()
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s of %s: error %v, want %q", c.name, c.function, err, c.want)
		}
	}
	// A notice says that a variable is read at some lines only.
	r := run(t, testenv.CompileC(t, "testdata/locals.c", "-O1", "-g"))
	s, err := New().Prepare(t.Context(), local(r.pid, "serve", "sum"))
	if err != nil {
		t.Fatal(err)
	}
	if n := s.Info().Notices; len(n) != 1 || !strings.Contains(n[0], "sum is not seen at each line where it lives: at some it is in an XMM register") {
		t.Errorf("notices %q", n)
	}
	s.Stop()
	// Without the function, or when sampled, a hint says what to do.
	r = run(t, plain)
	sampled := local(r.pid, "fib", "n")
	sampled.Every = time.Second
	for want, spec := range map[string]*plan.Acquire{"AND function_name = '...'": asked(r.pid, 0, "n"), "without SAMPLE": sampled} {
		_, err := New().Prepare(t.Context(), spec)
		var e *plan.Error
		if !errors.As(err, &e) || !strings.Contains(e.Hint, want) {
			t.Errorf("error %v, want the hint %q", err, want)
		}
	}
}

// A call that is open when probes are attached is reported from its next line
// on, and no probe stays in the program when the query ends.
func TestLocalsLeaveNothing(t *testing.T) {
	testenv.NeedUprobes(t)
	r := run(t, testenv.CompileC(t, "testdata/locals.c", "-O0", "-g"))
	spec := local(r.pid, "collatz", "n")
	for range 2 {
		got, stop := observe(t, spec)
		r.tell(t, "2")
		stop()
		if s := told(got); s != "n=2 n=1" {
			t.Errorf("told %s", s)
		}
	}
	s, err := New().Prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	one := s.(*watched).subjects[r.pid]
	for _, site := range one.traced[0].file.sites {
		if got := one.memory(site.Addr+one.traced[0].bias, len(site.Bytes)); !bytes.Equal(got, site.Bytes) {
			t.Errorf("at line %d there is % x, not % x", site.line, got, site.Bytes)
		}
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}

// Variables of code that the compiler has inlined or split off are not seen; a
// notice says so, with the number of such places.
func TestLocalsElsewhere(t *testing.T) {
	testenv.NeedUprobes(t)
	r := run(t, testenv.CompileC(t, "testdata/copies.c", "-O2", "-g"))
	for _, c := range []struct{ function, name, want string }{
		{"part", "half", `^part is inlined into others at 2 places: its variables are not seen there$`},
		{"guarded", "k", `^\d+ instructions at which lines of guarded begin lie apart from its main part \(\.cold\): its variables are not seen there$`},
	} {
		s, err := New().Prepare(t.Context(), local(r.pid, c.function, c.name))
		if err != nil {
			t.Fatal(err)
		}
		if n := s.Info().Notices; len(n) != 1 || !regexp.MustCompile(c.want).MatchString(n[0]) {
			t.Errorf("%s of %s: notices %q", c.name, c.function, n)
		}
		s.Stop()
	}
}

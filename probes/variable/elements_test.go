package variable

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"endoscope/probes/testenv"
)

// Elements of local variables are reported like other parts: of arrays, of what
// pointers lead to, and of Go slices that are long enough.
func TestElementsOfLocals(t *testing.T) {
	testenv.NeedUprobes(t)
	c := testenv.CompileC(t, "testdata/elements.c", "-O0", "-g")
	cpp := testenv.CompileC(t, "testdata/elements.c", "-x", "c++", "-O0", "-g")
	optimised := testenv.CompileC(t, "testdata/elements.c", "-O1", "-g")
	golang, goPlain := testenv.CompileGo(t, "testdata/goelements"), testenv.CompileGo(t, "testdata/goelements", "-gcflags=-N -l")
	for _, one := range []struct{ program, function, names, want string }{
		{c, "sum", "seen[1]", "seen[1]=0 seen[1]=7"},
		{c, "sum", "list[2] words[1] names[1]", "list[2]=3 words[1]=second names[1]=nobody names[1]=second words[1]=last"},
		{c, "sum", "o->parts[1].id o->parts[1].sizes[2] o->parts[1].words[1] o->rows[1][2] o->more[1]", "o->parts[1].id=0 o->parts[1].sizes[2]=0 o->parts[1].words[1]=none o->rows[1][2]=0 o->more[1]=0 o->parts[1].id=6 o->parts[1].sizes[2]=7 o->parts[1].words[1]=first o->rows[1][2]=8 o->more[1]=9"},
		{cpp, "sum", "o.rows[1][2] list[0] names[1]", "o.rows[1][2]=0 list[0]=1 names[1]=nobody names[1]=second o.rows[1][2]=8"},
		{optimised, "sum", "o->rows[1][2] list[1]", "o->rows[1][2]=0 list[1]=2 o->rows[1][2]=8"},
		{goPlain, "main.sum", "list[1] list[2] grid[1][2] parts[0].sizes[2]", "list[1]=2 list[2]=NULL grid[1][2]=0 parts[0].sizes[2]=0 list[1]=6 parts[0].sizes[2]=7 grid[1][2]=8 list[2]=9 list[1]=NULL list[2]=NULL"},
		{golang, "main.sum", "list[1] list[2]", "list[1]=2 list[2]=NULL"},
	} {
		r := run(t, one.program)
		got, stop := observe(t, local(r.pid, one.function, strings.Fields(one.names)...))
		r.tell(t, "6")
		stop()
		if s := told(got); s != one.want && (one.program != golang || !strings.HasPrefix(s, one.want)) {
			t.Errorf("%s of %s:\n%s, want\n%s", one.names, one.function, s, one.want)
		}
	}
	for _, one := range []struct{ program, function, name, want string }{
		{c, "sum", "seen[4]", "seen[4] of sum is not there: int[4] has 4 elements"},
		{c, "sum", "n[0]", "n[0] of sum has no elements: it is int"},
		{c, "sum", "seen[x]", "has an invalid index"},
		{c, "sum", "o->rows[2][0]", "int[2][3] has 2 elements"},
		{c, "sum", "o->rows[0][3]", "has 3 elements"},
		{goPlain, "main.sum", "parts[0].words[1]", "is an element of a slice that is one of another slice"},
	} {
		r := run(t, one.program)
		s, err := New().Prepare(t.Context(), local(r.pid, one.function, one.name))
		if err == nil {
			s.Stop()
		}
		if err == nil || !strings.Contains(err.Error(), one.want) {
			t.Errorf("%s of %s: error %v, want %q", one.name, one.function, err, one.want)
		}
	}
}

// Rows agree with gdb's watchpoints on the same programs, where a write changes
// a value: for elements of local variables, and for what is behind pointers,
// which gdb watches together with the pointers.
func TestPointersAndElementsAsDebuggerSeesThem(t *testing.T) {
	reported(t, pointersAndElementsAsDebuggerSeesThem)
}

func pointersAndElementsAsDebuggerSeesThem(t testing.TB) {
	testenv.NeedWatchpoints(t)
	gdb := testenv.NeedProgram(t, "gdb")
	elements := testenv.CompileC(t, "testdata/elements.c", "-O0", "-g")
	c := testenv.CompileC(t, "testdata/pointers.c", "-O0", "-g", "-pthread")
	cpp := testenv.CompileC(t, "testdata/pointers.c", "-x", "c++", "-O0", "-g", "-pthread")
	golang := testenv.CompileGo(t, "testdata/gopointers")
	bases := testenv.CompileC(t, "testdata/bases.cc", "-O0", "-g")
	for _, one := range []struct {
		program, function, name string
		expression, format      string // for gdb
		begin, end              string // where watching begins and ends
		commands                string
	}{
		{elements, "sum", "o->rows[1][2]", "o->rows[1][2]", "%d", "sum", "printf", "6"},
		{elements, "sum", "words[1]", "words[1]", "%s", "sum", "printf", "6"},
		{c, "", "head->id", "head->id", "%d", "hold", "leave", "k-1,i5,o6,h1!,o7,i8,w9,n10,h2!,i3"},
		{c, "", "head->next->id", "head->next->id", "%d", "hold", "leave", "k-1,y2,x2!,y3,h2!,y4"},
		{cpp, "", "table[3]", "table[3]", "%ld", "hold", "leave", "k-1,c5,t1!,c6,t0!,c7"},
		{bases, "", "circle.letters", "circle.letters", "%d", "ready", "leave", "b,i5,l6,l7"},
		{bases, "", "hiding.letters", "hiding.letters", "%ld", "ready", "leave", "b,h5,h6"},
		{bases, "", "shared._M_ptr->id", "shared._M_ptr->id", "%d", "ready", "leave", "b,s5,l6,s7"},
		{bases, "", "list._M_impl._M_start[1]", "list._M_impl._M_start[1]", "%d", "ready", "leave", "b,e5,e6"},
		{golang, "", "main.head.id", "main.head.id", "%ld", "main.link", "main.leave", "x2,i5,h1!,o6,i7,f8!,i9"},
		{golang, "", "main.table[2]", "main.table.array[2]", "%ld", "main.link", "main.leave", "x2,c5,g4!,c6"},
	} {
		print := fmt.Sprintf("printf \"#%s=%s\\n\", %s\n", one.name, one.format, one.expression)
		script := "tbreak " + one.begin + "\nrun < $input > /dev/null\n"
		if one.function != "" {
			script += print
		}
		watch := "watch "
		if one.function != "" {
			watch += "-location "
		}
		script += "break " + one.end + "\ncommands\nquit\nend\n" + watch + one.expression + "\n"
		script += "commands\nsilent\n" + print + "continue\nend\ncontinue\n"
		commands := strings.Split(one.commands, ",")
		seen, out := seenByDebugger(t, gdb, one.program, script, strings.ReplaceAll(strings.Join(commands, "\n"), "!", "")+"\nq\n")
		r := run(t, one.program)
		var got *record
		if one.function != "" {
			var stop func()
			got, stop = observe(t, local(r.pid, one.function, one.name))
			r.tell(t, commands...)
			stop()
		} else {
			var tell func(...string)
			var stop func()
			got, tell, stop = follow(t, r, one.name)
			tell(commands...)
			stop()
		}
		have := slices.Compact(strings.Split(strings.ReplaceAll(told(got), " "+one.name, "\n"+one.name), "\n"))
		if s, want := strings.Join(have, " "), strings.Join(seen, " "); s != want || len(seen) < 2 {
			t.Errorf("%s:\n%s, and a debugger sees\n%s\n%s", one.name, s, want, out)
		}
	}
}

package variable

import (
	"strings"
	"testing"
	"time"

	"endoscope/probes/testenv"
)

// Texts are read as they are at the write, or at the sample: std::string in the object and
// outside of it, Go's strings, and what a pointer of C leads to.
func TestTexts(t *testing.T) {
	testenv.NeedUprobes(t)
	c := testenv.CompileC(t, "testdata/texts.c", "-O1", "-g")
	cpp := testenv.CompileC(t, "testdata/locals.cc", "-O1", "-g")
	types := testenv.CompileC(t, "testdata/locals.cc", "-O1", "-gdwarf-4", "-fdebug-types-section")
	golang := testenv.CompileGo(t, "testdata/govars")
	long := "a motto that is longer than what fits into the object"
	for _, one := range []struct{ program, name, commands, want string }{
		{c, "label", "0,1,2", "label=one label=two label=NULL"},
		{cpp, "motto", "1,5,1", "motto=short! motto=" + long + " motto=" + long + "! motto=" + long + "!!"},
		{types, "motto", "1", "motto=short!"},
		{golang, "main.settled.name", "s80,s8080", "main.settled.name=port 80 main.settled.name=port 8080"},
	} {
		r := run(t, one.program)
		got, stop := observe(t, asked(r.pid, 0, one.name))
		r.tell(t, strings.Split(one.commands, ",")...)
		stop()
		if s := told(got); s != one.want {
			t.Errorf("%s:\n%s, want\n%s", one.name, s, one.want)
		}
		// The last value is what a sample has.
		got, stop = observe(t, asked(r.pid, 2*time.Millisecond, one.name))
		got.await(t, 2)
		stop()
		got.rows = got.rows[:1]
		if s := told(got); !strings.HasSuffix(one.want, " "+s) && one.want != s {
			t.Errorf("%s is %s, and was written %s", one.name, s, one.want)
		}
	}
}

package variable

import (
	"context"
	"endoscope/probes"
	"strings"
	"testing"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes/testenv"
)

// Texts are read as they are at the write, or at the sample: std::string inside
// and outside the object, Go strings, and C strings behind a pointer.
func TestTexts(t *testing.T) { reported(t, texts) }

func texts(t testing.TB) {
	testenv.NeedWatchpoints(t)
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
		// A sample has the last value.
		got, stop = observe(t, asked(r.pid, 2*time.Millisecond, one.name))
		got.await(t, 2)
		stop()
		got.rows = got.rows[:1]
		if s := told(got); !strings.HasSuffix(one.want, " "+s) && one.want != s {
			t.Errorf("%s is %s, and was written %s", one.name, s, one.want)
		}
	}
}

// A text longer than the limit is counted, sampled and watched alike; so is an
// unreadable one. A complete one is not.
func TestLongTexts(t *testing.T) { reported(t, longTexts) }

func longTexts(t testing.TB) {
	testenv.NeedWatchpoints(t)
	r := run(t, testenv.CompileCText(t, `
#include <stdio.h>
#include <string.h>
static char array[300], page[300], whole[255];
const char *far_text, *null_text, *nowhere = (const char *)8, *just;
struct holder { const char *text; } one, other, *held = &one;
__attribute__((noinline)) void set(void) { far_text = page; }
__attribute__((noinline)) void hold(void) { held = held == &one ? &other : &one; }
int main(void) {
	char line[100];
	memset(array, 'a', 299);
	memset(page, 'p', 299);
	memset(whole, 'w', 254);
	just = whole;
	one.text = other.text = far_text = page;
	for (int n = 0;; n++) {
		puts("1");
		fflush(stdout);
		if (!fgets(line, sizeof line, stdin))
			return 0;
		line[0] == 's' ? set() : hold();
	}
}`, "-O1", "-g"))
	for _, one := range []struct {
		name      string
		length    int // of the text; -1: NULL
		cut, lost bool
	}{{"array", maxText, true, false}, {"far_text", maxCString, true, false}, {"just", 254, false, false}, {"null_text", -1, false, false}, {"nowhere", -1, false, true}} {
		got, _ := lossy(t, asked(r.pid, 2*time.Millisecond, one.name), 2)
		text, known := got.rows[0]["var_text"]
		if known != (one.length >= 0) || known && len(text) != one.length || got.lost[cutTexts] > 0 != one.cut || got.lost[unread] > 0 != one.lost {
			t.Errorf("%s: a text of %d bytes, counted %v", one.name, len(text), got.lost)
		}
	}
	for command, name := range map[string]string{"s": "far_text", "h": "held->text"} {
		got, stop := lossy(t, asked(r.pid, 0, name), 0)
		r.tell(t, command)
		got.await(t, 1)
		stop()
		delete(got.lost, moved)
		if len(got.rows) != 1 || len(got.rows[0]["var_text"]) != maxCString || len(got.lost) != 1 || got.lost[cutTexts] != 1 {
			t.Errorf("%s: %d rows, counted %v", name, len(got.rows), got.lost)
		}
	}
}

// lossy starts a source whose losses are examined, and stops it once there are
// n rows; if n is 0, the returned function stops it.
func lossy(t testing.TB, spec *plan.Acquire, n int) (got *record, stop func()) {
	t.Helper()
	s, err := New().Prepare(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	got = &record{fields: table.Fields(), lost: map[string]uint64{}, ended: make(chan struct{})}
	if err := s.Start(context.Background(), got, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	stop = func() {
		s.Stop()
		<-got.ended
	}
	if n > 0 {
		got.await(t, n)
		stop()
	}
	return got, stop
}

package uprobe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/internal/testplan"
	"endoscope/probes/uprobe/selection"
)

// marks is the expansion of DTRACE_PROBE2 of <sys/sdt.h>, and a semaphore that says
// whether the probe is attached.
const marks = prelude + `
#define MARK(name, semaphore, operands, ...) asm volatile( \
	"990: nop\n" \
	".pushsection .note.stapsdt,\"\",\"note\"\n .balign 4\n" \
	".4byte 992f-991f, 994f-993f, 3\n" \
	"991: .asciz \"stapsdt\"\n" \
	"992: .balign 4\n" \
	"993: .8byte 990b, _.stapsdt.base, " semaphore "\n" \
	".asciz \"app\"\n .asciz \"" name "\"\n .asciz \"" operands "\"\n" \
	"994: .balign 4\n .popsection\n" \
	".ifndef _.stapsdt.base\n" \
	".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
	".weak _.stapsdt.base\n .hidden _.stapsdt.base\n" \
	"_.stapsdt.base: .space 1\n .size _.stapsdt.base,1\n .popsection\n" \
	".endif\n" :: __VA_ARGS__)
__attribute__((section(".probes"), used)) volatile unsigned short app_guarded_semaphore;
`

// marked executes places with arguments of all widths, in registers, memory and
// immediate operands.
const marked = marks + `
struct row { signed char small; unsigned short half; long wide[4]; };
static inline __attribute__((always_inline)) void twice(int n) { MARK("twice", "0", "-4@%0", "nor"(n)); }
NOINLINE void pass(struct row *r, int n, long i) {
	MARK("in__registers", "0", "-4@%0 8@%1", "r"(n), "r"(i));
	MARK("in__memory", "0", "-1@%0 2@%1 8@%2 8@%3", "m"(r->small), "m"(r->half), "m"(r->wide[3]), "m"(r->wide[i & 3]));
	MARK("constant", "0", "4@%0 -4@%1", "n"(7), "n"(-7));
	twice(n);
	if (app_guarded_semaphore) MARK("guarded", "app_guarded_semaphore", "-4@%0", "r"(n));
}
NOINLINE void again(int n) { twice(-n); sink++; }
int main(void) {
	struct row r = {-3, 0xfffe, {10, 20, 30, -40}};
	ready();
	printf("%d\n", app_guarded_semaphore);
	for (int i = 0; i < 100; i++) { pass(&r, i - 50, i); again(i); }
	ready();
	printf("%d\n", app_guarded_semaphore);
}
`

// Arguments of marked places are read as described by their notes, with their widths and
// signs; a place duplicated by the compiler is one of two; and a semaphore is raised for
// as long as a probe is attached.
func TestMarkedPlaces(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, optimize := range []string{"-O0", "-O2"} {
		target := testenv.CompileCText(t, marked, optimize, "-Wno-psabi")
		for k := attach.Multi; k <= attach.Perf; k++ {
			t.Run(optimize+" "+k.String(), func(t *testing.T) {
				needFeature(t, k.Needs())
				p := provider(t, Options{Links: k.String()})
				r := run(t, target)
				sel := testplan.Call("like", testplan.SelectColumn(plan.SelectName), testplan.Constant("usdt:app:%"))
				src, got := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), sel, "function_name", "class", "arg0", "arg1", "arg2", "arg3"))
				r.step()
				if line := r.line(); line != "1" {
					t.Errorf("the semaphore is %s while the place is probed", line)
				}
				r.line() // ready
				if err := src.Stop(); err != nil {
					t.Fatal(err)
				}
				if lines := r.finish(success); !slices.Equal(lines, []string{"0"}) {
					t.Errorf("the semaphore is %s when nothing is probed any more", lines)
				}
				have := map[string]int{}
				for _, row := range got.rows {
					have[fmt.Sprint(row[0].S, row[2].I, row[3].I, row[4].I, row[5].I)]++
				}
				want := map[string]int{}
				wide := []int64{10, 20, 30, -40}
				for i := range int64(100) {
					want[fmt.Sprint("usdt:app:in__registers", i-50, i, 0, 0)]++
					want[fmt.Sprint("usdt:app:in__memory", -3, 0xfffe, -40, wide[i&3])]++
					want[fmt.Sprint("usdt:app:constant", 7, -7, 0, 0)]++
					want[fmt.Sprint("usdt:app:twice", i-50, 0, 0, 0)]++
					want[fmt.Sprint("usdt:app:twice", -i, 0, 0, 0)]++
					want[fmt.Sprint("usdt:app:guarded", i-50, 0, 0, 0)]++
				}
				if diff := cmp.Diff(want, have); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// A condition on an argument is tested in the kernel, on the value after its extension.
func TestConditionOnMarkedArgument(t *testing.T) {
	testenv.NeedUprobes(t)
	p := provider(t, Options{})
	r := run(t, testenv.CompileCText(t, marked, "-O2"))
	spec := testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("usdt:app:twice"), "arg0")
	spec.Filter = bound(testplan.Call("<", col("arg0"), &plan.Const{V: types.Int(-90)}), spec.Out)
	src, got := start(t, p, spec)
	if src.Info().Residual != nil {
		t.Errorf("%s is left to be tested", src.Info().Residual)
	}
	r.step()
	r.line()
	r.line()
	src.Stop()
	r.finish(success)
	if n := len(got.rows); n != 9 { // again passes -91 to -99
		t.Errorf("%d rows, want 9", n)
	}
}

// Impossible requests are refused, with a list of what exists.
func TestMarkedPlacesRefused(t *testing.T) {
	testenv.NeedUprobes(t)
	p := provider(t, Options{})
	r := run(t, testenv.CompileCText(t, marked, "-O2"))
	for _, test := range []struct {
		stream, name, column string
		want                 string
	}{
		{catalog.FunctionDuration, "usdt:app:twice", "duration", "usdt:app:twice is a place that is passed, not a call that returns"},
		{catalog.FunctionCall, "usdt:app:twice", "event", "usdt:app:twice is a place that is passed, not a call that returns"},
		{catalog.FunctionStart, "usdt:app:twice", "depth", "usdt:app:twice is a place that is passed, which has no depth"},
		{catalog.FunctionStart, "usdt:app:twize", "arg0", "no function named usdt:app:twize"},
	} {
		_, err := p.Prepare(context.Background(), testplan.Acquire(test.stream, r.target(), testplan.Named(test.name), test.column))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s of %s: %v, want %s", test.stream, test.name, err, test.want)
			continue
		}
		if e, ok := err.(*plan.Error); test.name == "usdt:app:twize" && (!ok || !strings.Contains(e.Hint, "usdt:app:twice")) {
			t.Errorf("the hint does not name the nearest: %+v", e)
		}
	}
	_, err := p.Prepare(context.Background(), testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("usdt:nope:x"), "timestamp"))
	refused(t, err, "no function named usdt:nope:x", "SHOW FUNCTIONS LIKE 'usdt:%'")
	// A query for all functions means calls only.
	src, err := p.Prepare(context.Background(), testplan.Acquire(catalog.FunctionStart, r.target(), nil, "function_name"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range src.Info().Sites {
		if strings.HasPrefix(s.Function, selection.MarkedPrefix) {
			t.Errorf("%s is probed, which was not asked for", s.Function)
		}
	}
	src.Stop()
}

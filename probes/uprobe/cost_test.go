package uprobe

import (
	"slices"
	"testing"
	"time"

	"endoscope/planner/catalog"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// costly is a program that measures the costs of its own functions.
const costly = `
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline, noclone))
static volatile unsigned long sink;
static int in, out;
static long cpu(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec * 1000000000 + t.tv_nsec; }
NOINLINE long works(void) { long a = cpu(), b; do { for (int i = 0; i < 1000; i++) sink += i; b = cpu(); } while (b - a < 3000000); return b - a; }
NOINLINE long rests(void) { long a = cpu(); struct timespec t = {0, 5000000}; nanosleep(&t, 0); sink++; return cpu() - a; }
NOINLINE long reads(void) { static char b[1000]; sink += read(in, b, sizeof b); sink += read(in, b, 500); return 1500; }
NOINLINE long writes(void) { static char b[700]; sink += write(out, b, sizeof b); return 700; }
int main(void) {
	char line[10];
	in = open("/dev/zero", O_RDONLY), out = open("/dev/null", O_WRONLY);
	puts("ready"); fflush(stdout);
	if (!fgets(line, sizeof line, stdin)) return 1;
	for (int i = 0; i < 20; i++) sink += works() + rests() + reads() + writes();
	puts("done");
}`

// The costs of calls agree with the program's own measurements: CPU time without sleep,
// and the bytes read and written.
func TestCosts(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, costly, "-O1")
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		r := run(t, target)
		_, calls := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("works", "rests", "reads", "writes"),
			"function_name", "duration", "cpu_time", "read_bytes", "written_bytes", "retval"))
		r.finish(success)
		calls.wait(t)
		durations, times, told := calls.ints("duration"), calls.ints("cpu_time"), calls.ints("retval")
		in, out := calls.ints("read_bytes"), calls.ints("written_bytes")
		sum, off := map[string]int64{}, map[string][]int64{}
		for i, name := range calls.strings("function_name") {
			sum[name]++
			// The two clocks are read one after the other: an interrupt in between
			// counts for only one of them.
			if times[i] > durations[i]+int64(time.Millisecond) {
				t.Errorf("%s took %d ns of CPU time in %d", name, times[i], durations[i])
			}
			wantIn, wantOut := int64(0), int64(0)
			switch name {
			case "works", "rests":
				off[name] = append(off[name], times[i]-told[i])
			case "reads":
				wantIn = told[i]
			case "writes":
				wantOut = told[i]
			}
			if in[i] != wantIn || out[i] != wantOut {
				t.Errorf("%s read %d bytes and wrote %d, want %d and %d", name, in[i], out[i], wantIn, wantOut)
			}
		}
		for _, name := range []string{"works", "rests", "reads", "writes"} {
			if sum[name] != 20 {
				t.Errorf("%d calls of %s", sum[name], name)
			}
		}
		for _, name := range []string{"works", "rests"} {
			// If the thread moved to another CPU during a call, up to a tick is missing;
			// the probe's own time is in both or in neither. Time stolen from a virtual
			// processor between the readings of probe and program is in one of them,
			// occasionally tens of ms: two calls may be off in either direction. On a busy
			// machine threads move often, but most calls are exact.
			slices.Sort(off[name])
			const exact, tick = int64(time.Millisecond), int64(10 * time.Millisecond)
			n := len(off[name])
			if n == 20 && (off[name][2] < -tick || off[name][n-3] > tick || off[name][n/2] < -exact || off[name][n/2] > exact) {
				t.Errorf("the CPU time of %s differs from its own account by %d ns", name, off[name])
			}
		}
	})
}

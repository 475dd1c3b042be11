package uprobe

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// visited is a library without a constructor.
const visited = `
volatile long total;
__attribute__((noinline)) long plug_run(long n) { total += n; return n; }
`

const (
	gapCause = "calls in libplug.so from its mapping until it was probed, a gap of "
	// crowdedCause is lost where the tests got no processor while programs mapped libraries.
	crowdedCause = "calls in libraries, perhaps: the kernel had no room to report all mappings"
)

// A library that a program loads, calls and unloads repeatedly is probed, although it
// may be unmapped at any time it is examined. Calls before that are a gap, which is
// reported; calls after it are rows. Where the gap begins is not known if the kernel could
// not report all mappings.
func TestLibraryThatLeaves(t *testing.T) {
	testenv.NeedUprobes(t)
	program := testenv.CompileCText(t, prelude+`
#include <dlfcn.h>
#include <poll.h>
#include <time.h>
static long now(void) { struct timespec t; clock_gettime(CLOCK_BOOTTIME, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
static long times[1 << 20], loaded;
int main(int argc, char **argv) {
	struct pollfd in = { .fd = 0, .events = POLLIN };
	long n = 0, more = -1;
	ready();
	while (more && n < 1 << 20) {
		void *lib = dlopen(argv[1], RTLD_NOW);
		if (!lib) { puts(dlerror()); return 1; }
		if (!loaded) loaded = now();
		times[n] = now();
		((long (*)(long))dlsym(lib, "plug_run"))(n++);
		dlclose(lib);
		if (more > 0) more--;
		else if (poll(&in, 1, 0)) more = 50;
	}
	printf("%ld %ld\n", n, loaded);
	for (long i = 0; i < n; i++) printf("%ld\n", times[i]);
}`, "-O1", "-ldl")
	library := copyAs(t, testenv.CompileCText(t, visited, "-O1", "-shared", "-fPIC"), "libplug.so")
	for _, stream := range []string{catalog.FunctionStart, catalog.FunctionDuration} {
		t.Run(stream, func(t *testing.T) {
			p := provider(t, Options{})
			r := run(t, program, library)
			_, got := start(t, p, testplan.Acquire(stream, r.target(), testplan.InPlugin(), "timestamp", "arg0"))
			r.step()
			probed(t, p, 1)
			fmt.Fprintln(r.in)
			lines := r.finish(success)
			got.wait(t)
			var n, loaded, last int64
			fmt.Sscan(lines[0], &n, &loaded)
			missing := n - int64(len(got.rows))
			for i, arg := range got.ints("arg0") {
				if arg != missing+int64(i) {
					t.Fatalf("row %d of %d is of call %d of %d", i, len(got.rows), arg, n)
				}
			}
			if len(got.rows) < 50 {
				t.Errorf("%d rows, but 50 calls were made when the library had been probed", len(got.rows))
			}
			crowded := hasLost(got, crowdedCause)
			if !hasLost(got, gapCause) && !crowded || missing == 0 {
				t.Fatalf("%d of %d calls are missing, lost %v", missing, n, got.lost)
			}
			for cause, times := range got.lost {
				if crowded && (cause == crowdedCause || strings.HasPrefix(cause, gapCause)) {
					continue
				}
				if strings.HasPrefix(cause, "libplug.so was loaded and is not probed") {
					continue // it was being loaded or unloaded at the time
				}
				gap, err := time.ParseDuration(strings.TrimPrefix(cause, gapCause))
				if err != nil || times != 1 {
					t.Fatalf("lost %d: %s", times, cause)
				}
				fmt.Sscan(lines[missing], &last)
				if late := time.Duration(last - loaded); late > gap+10*time.Microsecond {
					t.Errorf("a call %v after the library was loaded is missing, and the gap that is told is one of %v", late, gap)
				}
			}
		})
	}
}

// Programs that load a library, call it and end may be gone, and the library's file as
// well: each call is a row, or a gap is reported.
func TestLibraryOfProgramsThatEnd(t *testing.T) {
	testenv.NeedUprobes(t)
	library := testenv.CompileCText(t, visited, "-O1", "-shared", "-fPIC")
	const program = prelude + `
#include <dlfcn.h>
int main(int argc, char **argv) {
	if (argc == 1) { ready(); return 0; }
	void *lib = dlopen(argv[1], RTLD_NOW);
	if (!lib) { puts(dlerror()); return 1; }
	if (argc > 2) unlink(argv[1]);
	((long (*)(long))dlsym(lib, "plug_run"))(1);
	if (argc > 3) { dlclose(lib); if (fork()) return 0; execl("/bin/true", "true", (char *)0); }
}`
	const programs = 12
	for _, by := range []string{"executable", "name"} {
		t.Run(by, func(t *testing.T) {
			path := copyAs(t, testenv.CompileCText(t, program, "-O1", "-ldl"), "visitor"+by)
			target := plan.Target{Exes: []string{path}}
			if by == "name" {
				target = plan.Target{Processes: []string{filepath.Base(path)}}
			}
			p := provider(t, Options{})
			run(t, path) // a name needs a running process
			src, got := start(t, p, testplan.Acquire(catalog.FunctionStart, target, testplan.InPlugin(), "timestamp", "pid"))
			for i := range programs {
				own := copyAs(t, library, "libplug.so")
				args := [][]string{{own}, {own, "unlink"}, {own, "unlink", "leave"}}[i%3]
				if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			if err := src.Stop(); err != nil {
				t.Fatal(err)
			}
			var told int
			for _, n := range got.lost {
				told += int(n)
			}
			if n := len(got.rows) + told; n < programs {
				t.Errorf("%d rows, lost %v: of %d calls %d are not told of", len(got.rows), got.lost, programs, programs-n)
			}
		})
	}
}

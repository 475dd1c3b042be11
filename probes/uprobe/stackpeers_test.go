package uprobe

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/planner/types"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// pathsOfPeers is a C program whose function target is called in different ways, once in
// each, with frame pointers throughout: target has a frame, because the other tools find
// its caller only by it.
const pathsOfPeers = prelude + `
#include <signal.h>
NOINLINE long target(long n) { volatile char room[16]; room[n % 16] = 1; sink += n + room[n % 16]; return n; }
NOINLINE long one(long n) { long r = target(n) + 1; sink += r; return r; }
NOINLINE long two(long n) { long r = one(n) + 1; sink += r; return r; }
NOINLINE long deep(long n, long k) { long r = k ? deep(n, k - 1) + 1 : target(n); sink += r; return r; }
NOINLINE int compare(const void *a, const void *b) { return target(4) > 9 ? 1 : *(int *)a - *(int *)b; }
NOINLINE long sorts(void) { int list[2] = {2, 1}; qsort(list, 2, sizeof *list, compare); return list[0]; }
static void handle(int s) { two(5); }
NOINLINE long raises(void) { raise(SIGUSR1); return 0; }
NOINLINE long all(void) { long r = target(0); r += one(1); r += two(2); r += deep(3, 20); r += sorts(); r += raises(); sink += r; return r; }
int main(void) { signal(SIGUSR1, handle); ready(); all(); ready(); return 0; }`

const methodsOfPeers = prelude + `
struct Shape { virtual long area(long n) = 0; virtual ~Shape() {} };
struct Circle : Shape { NOINLINE long area(long n) override { volatile char room[16]; room[n % 16] = 1; sink += n + room[n % 16]; return n; } };
namespace plane {
struct Group { Shape *s; NOINLINE long total(long n) { long r = s->area(n) + 1; sink += r; return r; } };
NOINLINE long measure(Group &g, long n) { long r = g.total(n) + 1; sink += r; return r; }
}
NOINLINE long tries(plane::Group &g, long n) { try { if (n % 2) throw n; return plane::measure(g, n) + 1; } catch (long k) { return g.total(k) + 2; } }
int main() { Circle c; plane::Group g{&c}; ready(); for (long i = 0; i < 4; i++) sink += tries(g, i); ready(); return 0; }`

// Each call's stack has the same functions as gdb's backtrace and bpftrace's ustack of
// the program. gdb unwinds by tables, as we do; bpftrace follows frame pointers, which
// the C library lacks: functions that it calls back are omitted there.
func TestStacksAreThoseOfPeers(t *testing.T) {
	testenv.NeedUprobes(t)
	gdb, bpftrace := testenv.NeedProgram(t, "gdb"), testenv.NeedProgram(t, "bpftrace")
	flags := []string{"-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-pthread"}
	for _, c := range []struct {
		name, path       string
		function, symbol string
		roots            []string // the last functions that are compared
		calls            int
		callbacks        []string // their stacks contain functions without frame pointers
	}{
		{"C", testenv.CompileCText(t, pathsOfPeers, flags...), "target", "target", []string{"main"}, 6, []string{"compare", "handle"}},
		{"C++", compileCC(t, methodsOfPeers, flags...), "Circle::area", "_ZN6Circle4areaEl", []string{"main"}, 4, nil},
		{"Go", testenv.CompileGo(t, "testdata/gopaths"), "main.leaf", "main.leaf", []string{"runtime.goexit"}, 5, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(t, c.path)
			_, got := start(t, provider(t, Options{}), testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named(c.function), "timestamp", "stack"))
			r.step()
			r.line()
			of := ustacks(t, bpftrace, c.path, c.symbol, c.calls)
			r.finish(success)
			got.wait(t)
			var ours [][]string
			for _, row := range got.rows {
				ours = append(ours, frames(row[1]))
			}
			if len(ours) != c.calls || len(got.lost) > 0 || len(got.counts) > 0 {
				t.Fatalf("%d stacks, lost %v, counted %v", len(ours), got.lost, got.counts)
			}
			// gdb names the system's functions differently, by their debug information.
			var program []string
			for _, row := range got.rows {
				for i, name := range frames(row[1]) {
					if module := moduleOf(row[1], i); module == filepath.Base(c.path) || name == "[signal]" {
						program = append(program, name)
					}
				}
			}
			own := func(stacks [][]string) (out [][]string) {
				for _, s := range stacks {
					s = slices.DeleteFunc(slices.Clone(s), func(name string) bool { return !slices.Contains(program, name) })
					if i := slices.IndexFunc(s, func(name string) bool { return slices.Contains(c.roots, name) }); i >= 0 {
						s = s[:i+1]
					}
					out = append(out, s)
				}
				return out
			}
			if diff := cmp.Diff(own(backtraces(t, gdb, c.path, c.symbol)), own(ours)); diff != "" {
				t.Errorf("gdb's stacks and ours: %s", diff)
			}
			var followable [][]string
			for i, s := range ours {
				if slices.ContainsFunc(s, func(name string) bool { return slices.Contains(c.callbacks, name) }) {
					of = slices.Delete(of, len(followable), len(followable)+1)
					continue
				}
				followable = append(followable, ours[i])
			}
			if diff := cmp.Diff(own(of), own(followable)); diff != "" {
				t.Errorf("bpftrace's stacks and ours: %s", diff)
			}
		})
	}
}

func moduleOf(stack types.Value, i int) string {
	return stack.A.([]types.Value)[i].A.([]types.Value)[1].S
}

// functionIn matches the function in a line of gdb's or bpftrace's output, without its
// arguments; in gdb's it follows the number and address of the frame.
var (
	functionIn  = regexp.MustCompile(`^#\d+ +(?:0x[0-9a-f]+ in )?(<signal handler called>|.+?) (?:\(|$)|^\s+(\S.*)\+\d+$`)
	argumentsIn = regexp.MustCompile(`\([^()]*\)$`)
)

// functionsIn returns the functions of the stacks in lines, each preceded by a line that
// starts with begin.
func functionsIn(lines *bufio.Scanner, begin string) (stacks [][]string) {
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, begin) {
			stacks = append(stacks, nil)
			continue
		}
		m := functionIn.FindStringSubmatch(line + " ")
		if m == nil {
			m = functionIn.FindStringSubmatch(line)
		}
		if m == nil || len(stacks) == 0 {
			continue
		}
		name := strings.TrimSuffix(argumentsIn.ReplaceAllString(m[1]+m[2], ""), ".abi0")
		if name == "<signal handler called>" || name == "__restore_rt" {
			name = "[signal]"
		}
		stacks[len(stacks)-1] = append(stacks[len(stacks)-1], name)
	}
	return stacks
}

// backtraces returns gdb's backtrace of each call of a function.
func backtraces(t *testing.T, gdb, path, symbol string) [][]string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "script")
	for name, text := range map[string]string{script: `set pagination off
set confirm off
handle SIGUSR1 SIGURG nostop noprint pass
break *'` + symbol + `'
commands
silent
echo CALL\n
backtrace
continue
end
run < ` + script + `.in
`, script + ".in": "go\ngo\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(gdb, "-batch", "-nx", "-x", script, path)
	// A signal that interrupts at the breakpoint, such as Go's own, makes it hit again.
	cmd.Env = append(os.Environ(), "SHELL=/bin/sh", "GODEBUG=asyncpreemptoff=1")
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return functionsIn(bufio.NewScanner(strings.NewReader(out.String())), "CALL")
}

// ustacks returns bpftrace's stacks of the n calls of a function. On a busy machine
// bpftrace may end before it has printed everything: then it is run again.
func ustacks(t *testing.T, bpftrace, path, symbol string, n int) [][]string {
	t.Helper()
	for range 3 {
		stacks, said := ustacksOnce(t, bpftrace, path, symbol, n)
		if len(stacks) == n && !slices.ContainsFunc(stacks, func(s []string) bool { return len(s) == 0 }) {
			return stacks
		}
		t.Logf("bpftrace told %d of %d stacks: %s", len(stacks), n, said)
	}
	t.Fatal("bpftrace does not tell the stacks")
	return nil
}

// ustacksOnce returns the stacks of one run, and bpftrace's exit status and error
// output.
func ustacksOnce(t *testing.T, bpftrace, path, symbol string, n int) (stacks [][]string, said string) {
	t.Helper()
	r := run(t, path)
	cmd := exec.Command(bpftrace, "-B", "line", "-e", fmt.Sprintf(`BEGIN { printf("ready\n"); } uprobe:%s:"%s" /pid == %d/ { printf("CALL%%sEND\n", ustack); }`,
		path, symbol, r.cmd.Process.Pid))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errors, text strings.Builder
	cmd.Stderr = &errors
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(2*time.Minute, func() { cmd.Process.Kill() })
	defer late.Stop()
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "ready" {
	}
	r.step()
	r.line()
	for done := 0; done < n && lines.Scan(); { // while the program still runs, so that names can be resolved
		text.WriteString(lines.Text() + "\n")
		if strings.HasSuffix(lines.Text(), "END") {
			done++
		}
	}
	cmd.Process.Kill()
	err = cmd.Wait()
	r.finish(success)
	return functionsIn(bufio.NewScanner(strings.NewReader(text.String())), "CALL"), fmt.Sprintf("%v %s", err, errors.String())
}

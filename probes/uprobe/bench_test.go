package uprobe

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/decode"
	"endoscope/probes/uprobe/internal/testplan"
	"endoscope/probes/uprobe/program"
)

// benchCalls is the number of calls of pushes by the benchmarks' target.
const benchCalls = 300_000

// benchTarget returns a program that calls pushes and prints the processor time used.
func benchTarget(b *testing.B) string {
	// Saving a register makes the first instruction a push, which the kernel
	// emulates; the other begins with an instruction that it has to step.
	return testenv.CompileCText(b, prelude+fmt.Sprintf(`
static long now(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
__asm__(".text\n.type pushes,@function\n.globl pushes\npushes: .cfi_startproc\npush %%rbx\n.cfi_adjust_cfa_offset 8\nmov %%rdi,%%rbx\nmov %%rbx,%%rax\npop %%rbx\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n.size pushes,.-pushes\n");
long pushes(long);
/* The same, with an instruction before its return that the kernel emulates. */
__asm__(".text\n.type jumps,@function\n.globl jumps\njumps: .cfi_startproc\npush %%rbx\n.cfi_adjust_cfa_offset 8\nmov %%rdi,%%rbx\nmov %%rbx,%%rax\npop %%rbx\n.cfi_adjust_cfa_offset -8\njmp 1f\n1: ret\n.cfi_endproc\n.size jumps,.-jumps\n");
long jumps(long);
int main(int argc, char **argv) {
	ready();
	int calls = %d;
	long t = now();
	if (argc > 1) for (int i = 0; i < calls; i++) sink += jumps(i);
	else for (int i = 0; i < calls; i++) sink += pushes(i);
	printf("%%ld\n", now() - t);
}
`, benchCalls), "-O1", "-fcf-protection=none")
}

// measureCalls reports the cost of a call for the target, and the events that reach the
// sink.
func measureCalls(b *testing.B, target string, attach func(r *running) func() *testplan.Discard, args ...string) {
	var ns []float64
	var rows, lost float64
	var elapsed time.Duration
	for range b.N {
		r := run(b, target, args...)
		done := attach(r)
		began := time.Now()
		own, _ := strconv.ParseFloat(r.finish(success)[0], 64)
		elapsed += time.Since(began)
		ns = append(ns, own/benchCalls)
		if d := done(); d != nil {
			rows += float64(d.Rows)
			lost += float64(d.LostRows)
		}
	}
	slices.Sort(ns)
	b.ReportMetric(ns[len(ns)/2], "ns/call") // other load on the machine makes outliers
	if rows > 0 {
		b.ReportMetric(rows/elapsed.Seconds(), "rows/s")
		b.ReportMetric(lost/float64(b.N), "lost")
	}
}

// emptyProgram attaches a program that does nothing to pushes.
func emptyProgram(b *testing.B, target string, attachType uint32) func(r *running) func() *testplan.Discard {
	return ownProgram(b, target, attachType, nil)
}

// ownProgram attaches a program of these instructions to pushes; a jump to "out" ends it.
func ownProgram(b *testing.B, target string, attachType uint32, instructions asm.Instructions) func(r *running) func() *testplan.Discard {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.Kprobe, AttachType: ebpf.AttachType(attachType), License: "GPL",
		Instructions: append(slices.Clone(instructions), asm.Mov.Imm(asm.R0, 0).WithSymbol("out"), asm.Return()),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { prog.Close() })
	file, err := os.Open(target)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { file.Close() })
	return func(r *running) func() *testplan.Discard {
		src, err := provider(b, Options{}).Prepare(b.Context(), testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("pushes"), "timestamp"))
		if err != nil {
			b.Fatal(err)
		}
		l, err := attach.Uprobes(prog, file, attachType, 0, 0, attach.Places{Offsets: []uint64{src.Info().Sites[0].Address}, Cookies: []uint64{0}})
		if err != nil {
			b.Fatal(err)
		}
		return func() *testplan.Discard { l.Close(); src.Stop(); return nil }
	}
}

// BenchmarkCall measures the additional processor time of a call in the target, and the
// rows a second that reach the sink meanwhile.
func BenchmarkCall(b *testing.B) {
	testenv.NeedUprobes(b)
	target := benchTarget(b)
	b.Run("unprobed", func(b *testing.B) {
		measureCalls(b, target, func(*running) func() *testplan.Discard { return func() *testplan.Discard { return nil } })
	})
	// The kernel's cost of an empty program at this site.
	b.Run("empty program", func(b *testing.B) {
		measureCalls(b, target, emptyProgram(b, target, attach.TypeMulti))
	})
	rare := testplan.Call("=", big("%", col("arg0"), num(1000)), num(0))
	never := testplan.Call("<", col("arg0"), num(0))
	long := testplan.Call(">", col("duration"), dur(time.Second))
	nobody := testplan.Call("<", col("tid"), num(0))
	entries := testplan.Call("=", col("event"), testplan.Constant(decode.EventEnter))
	for _, c := range []struct {
		name, stream, mode string
		cond               plan.Expr
		queries            int
		cols               []string
	}{
		{"entry", catalog.FunctionStart, "session", nil, 1, []string{"timestamp"}},
		{"entry with arguments and names", catalog.FunctionStart, "session", nil, 1, []string{"timestamp", "arg0", "process"}},
		{"entry, 1 in 1000 wanted", catalog.FunctionStart, "session", rare, 1, []string{"timestamp", "arg0"}},
		{"entry, none wanted", catalog.FunctionStart, "session", never, 1, []string{"timestamp", "arg0"}},
		{"entry, none wanted by two queries", catalog.FunctionStart, "session", never, 2, []string{"timestamp", "arg0"}},
		{"entry, two queries", catalog.FunctionStart, "session", nil, 2, []string{"timestamp"}},
		{"session", catalog.FunctionDuration, "session", nil, 1, []string{"timestamp", "duration"}},
		{"session, two queries", catalog.FunctionDuration, "session", nil, 2, []string{"timestamp", "duration"}},
		{"session, refused at the entry", catalog.FunctionDuration, "session", never, 1, []string{"timestamp", "duration", "arg0"}},
		{"session, refused at the return", catalog.FunctionDuration, "session", long, 1, []string{"timestamp", "duration"}},
		{"session with depth", catalog.FunctionDuration, "session", nil, 1, []string{"timestamp", "duration", "depth"}},
		{"sequence", catalog.FunctionCall, "session", nil, 1, []string{"timestamp", "event", "depth"}},
		{"sequence, refused at the entry", catalog.FunctionCall, "session", nobody, 1, []string{"timestamp", "event", "tid"}},
		{"sequence, entries alone", catalog.FunctionCall, "session", entries, 1, []string{"timestamp", "depth", "event"}},
		{"sequence by a pair", catalog.FunctionCall, "multi", nil, 1, []string{"timestamp", "event", "depth"}},
		{"pair", catalog.FunctionDuration, "multi", nil, 1, []string{"timestamp", "duration"}},
		{"pair, refused at the entry", catalog.FunctionDuration, "multi", never, 1, []string{"timestamp", "duration", "arg0"}},
		{"exits", catalog.FunctionDuration, "exits", nil, 1, []string{"timestamp", "duration"}},
		{"exits, refused at the entry", catalog.FunctionDuration, "exits", never, 1, []string{"timestamp", "duration", "arg0"}},
		{"exits, refused at the return", catalog.FunctionDuration, "exits", long, 1, []string{"timestamp", "duration"}},
		{"exits with depth", catalog.FunctionDuration, "exits", nil, 1, []string{"timestamp", "duration", "depth"}},
		{"exits, sequence", catalog.FunctionCall, "exits", nil, 1, []string{"timestamp", "event", "depth"}},
		{"exits, stepped", catalog.FunctionDuration, "exits", nil, 1, []string{"timestamp", "duration"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			if c.mode == "session" && !attach.FeatureSession.Has() {
				b.Skip("needs Linux 6.13")
			}
			function, args := "pushes", []string(nil)
			if strings.HasPrefix(c.name, "exits") && c.name != "exits, stepped" {
				function, args = "jumps", []string{"jumps"}
			}
			measureCalls(b, target, func(r *running) func() *testplan.Discard {
				o := Options{Links: c.mode}
				if c.mode == "exits" {
					o = Options{Returns: plan.ExitReturns}
				}
				p := provider(b, o)
				ds := make([]*testplan.Discard, c.queries)
				for i := range ds {
					spec := testplan.Acquire(c.stream, r.target(), testplan.Named(function), c.cols...)
					if c.cond != nil {
						spec.Filter = bound(c.cond, spec.Out)
						spec.FilterOnly = []int{len(c.cols) - 1}
					}
					ds[i] = discarded(b, p, spec)
				}
				return func() *testplan.Discard {
					for _, d := range ds {
						<-d.Ended
					}
					return ds[0]
				}
			}, args...)
		})
	}
}

// discarded starts an acquisition and discards its rows.
func discarded(b *testing.B, p *Provider, spec *plan.Acquire) *testplan.Discard {
	src, err := p.Prepare(b.Context(), spec)
	if err != nil {
		b.Fatal(err)
	}
	d := &testplan.Discard{Ended: make(chan struct{})}
	if err := src.Start(b.Context(), d, probes.Options{}); err != nil {
		b.Fatal(err)
	}
	return d
}

// BenchmarkAbsentText is BenchmarkCall for a record with a text, which is on a page that is
// present or that the target gives up before each call, and which it reads itself or not.
func BenchmarkAbsentText(b *testing.B) {
	testenv.NeedUprobes(b)
	target := testenv.CompileCText(b, prelude+fmt.Sprintf(`
#include <sys/mman.h>
static long now(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
static const char page[1 << 16] __attribute__((aligned(1 << 16))) = "a text";
NOINLINE long named(const char *text) { __asm__ volatile("push %%%%rbx; pop %%%%rbx" ::: "memory"); return (long)text; }
int main(int argc, char **argv) {
	int drops = argv[1][0] == 'd', reads = argv[2][0] == 'r';
	ready();
	sink += *(volatile const char *)page;
	long t = now();
	for (int i = 0; i < %d; i++) {
		if (drops) madvise((void *)page, sizeof(page), MADV_DONTNEED);
		sink += named(page);
		if (reads) sink += *(volatile const char *)page;
	}
	printf("%%ld\n", now() - t);
}
`, benchCalls), "-O1", "-fcf-protection=none")
	for _, page := range []string{"kept", "dropped"} {
		for _, use := range []string{"unread", "read"} {
			for _, how := range []string{"unprobed", "wait", "null"} {
				b.Run(page+", "+use+", "+how, func(b *testing.B) {
					measureCalls(b, target, func(r *running) func() *testplan.Discard {
						if how == "unprobed" {
							return func() *testplan.Discard { return nil }
						}
						spec := testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("named"), "timestamp")
						spec.Out.Fields = append(spec.Out.Fields, types.Field{Name: "str(arg0)", Type: types.Varchar})
						spec.Settings.AbsentNull = how == "null"
						d := discarded(b, provider(b, Options{}), spec)
						return func() *testplan.Discard { <-d.Ended; return d }
					}, page, use)
				})
			}
		}
	}
}

// goBenchTarget is benchTarget in Go.
func goBenchTarget(b *testing.B) string {
	dir := b.TempDir()
	for name, text := range map[string]string{"go.mod": "module target\n\ngo 1.26\n", "main.go": fmt.Sprintf(`package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

var sink int

//go:noinline
func rest(n int) int { return n + 1 }

//go:noinline
func work(n int) int { return rest(n) + 1 }

func now() int64 {
	var t syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 3, uintptr(unsafe.Pointer(&t)), 0) // the thread's
	return t.Nano()
}

func main() {
	runtime.LockOSThread()
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	t := now()
	for i := range %d {
		sink += work(i)
	}
	fmt.Println(now() - t)
}
`, benchCalls)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return testenv.CompileGo(b, dir)
}

// BenchmarkGoCall is BenchmarkCall for a Go function, at whose only exit the kernel must
// single-step a RET.
func BenchmarkGoCall(b *testing.B) {
	testenv.NeedUprobes(b)
	target := goBenchTarget(b)
	b.Run("unprobed", func(b *testing.B) {
		measureCalls(b, target, func(*running) func() *testplan.Discard { return func() *testplan.Discard { return nil } })
	})
	for _, c := range []struct {
		name, stream string
		cols         []string
	}{
		{"entry", catalog.FunctionStart, []string{"timestamp"}},
		{"exits", catalog.FunctionDuration, []string{"timestamp", "duration"}},
		{"exits with depth", catalog.FunctionDuration, []string{"timestamp", "duration", "depth"}},
		{"exits, sequence", catalog.FunctionCall, []string{"timestamp", "event", "depth", "goroutine"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			measureCalls(b, target, func(r *running) func() *testplan.Discard {
				d := discarded(b, provider(b, Options{}), testplan.Acquire(c.stream, r.target(), testplan.Named("main.work"), c.cols...))
				return func() *testplan.Discard { <-d.Ended; return d }
			})
		})
	}
}

// BenchmarkInstall measures the time before a query's probes are attached.
func BenchmarkInstall(b *testing.B) {
	testenv.NeedUprobes(b)
	for name, how := range map[string]calls.Returns{"entries": calls.Unseen, "traps": calls.Trapped, "exits": calls.AtExits} {
		b.Run(name, func(b *testing.B) {
			k := compiledKernel(b)
			for b.Loop() {
				in, err := k.Install(program.Setup{Returns: map[calls.Returns]bool{how: true}, Functions: 1})
				if err != nil {
					b.Fatal(err)
				}
				k.Remove(in)
			}
		})
	}
}

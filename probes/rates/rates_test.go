package rates

import (
	"bufio"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"endoscope/probes/testenv"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ratios calls hot, warm and cool 100:10:1 times, and others never, and says at
// the end of a line of input how many seconds it ran and how often it called
// them.
const ratios = `
#include <stdio.h>
#include <unistd.h>
#include <poll.h>
#include <time.h>
#define FUNCTION(f) __asm__(".text\n.globl " #f "\n.type " #f ",@function\n" #f ": .cfi_startproc\npush %rbx\n.cfi_adjust_cfa_offset 8\npop %rbx\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n.size " #f ",.-" #f "\n"); void f(void);
FUNCTION(hot) FUNCTION(warm) FUNCTION(cool)
#define NEVER(n) FUNCTION(never0##n) FUNCTION(never1##n) FUNCTION(never2##n) FUNCTION(never3##n)
NEVER(0) NEVER(1) NEVER(2) NEVER(3) NEVER(4) NEVER(5) NEVER(6) NEVER(7) NEVER(8) NEVER(9)
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static volatile long spun;
static void spin(long n) { while (n-- > 0) spun++; }
int main(int argc, char **argv) {
	long work = argc > 1 ? 1 : 0, calls = 0;
	struct pollfd in = {0, POLLIN};
	puts("ready"); fflush(stdout);
	char b[16];
	if (!work) { read(0, b, sizeof b); return 0; }
	for (;;) {
		double t = now();
		long n = 0;
		while (poll(&in, 1, 0) == 0) {
			n++;
			for (int i = 0; i < 100; i++) {
				hot();
				if (i % 10 == 0) warm();
				spin(WORK);
			}
			cool();
		}
		printf("%ld %f\n", n, now() - t); fflush(stdout);
		if (read(0, b, sizeof b) <= 0) return 0;
	}
}
`

type target struct {
	cmd *exec.Cmd
	in  *os.File
	out *bufio.Scanner
}

func runRatios(t *testing.T, path string, args ...string) *target {
	t.Helper()
	cmd := exec.Command(path, args...)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = r
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	t.Cleanup(func() { w.Close(); cmd.Wait() })
	s := bufio.NewScanner(out)
	s.Scan()
	return &target{cmd, w, s}
}

// rounds is how many rounds a second the target has made since the last call.
func (r *target) rounds(t *testing.T) float64 {
	t.Helper()
	fmt.Fprintln(r.in)
	r.out.Scan()
	var n, s float64
	if _, err := fmt.Sscan(r.out.Text(), &n, &s); err != nil {
		t.Fatal(err)
	}
	return n / s
}

// functions finds where the target's functions lie in its file and in memory.
func functions(t *testing.T, f *os.File, names ...string) (offsets, addrs []uint64) {
	t.Helper()
	e, err := elf.NewFile(f)
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := e.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		for _, s := range symbols {
			if s.Name != name {
				continue
			}
			for _, p := range e.Progs {
				if p.Type == elf.PT_LOAD && p.Vaddr <= s.Value && s.Value < p.Vaddr+p.Filesz {
					offsets = append(offsets, s.Value-p.Vaddr+p.Off)
					addrs = append(addrs, s.Value)
				}
			}
		}
	}
	return offsets, addrs
}

func names() []string {
	out := []string{"hot", "warm", "cool"}
	for i := range 40 {
		out = append(out, fmt.Sprintf("never%d%d", i/10, i%10))
	}
	return out
}

func candidates(t *testing.T, f *os.File, pid int, a Activity, costNs float64) []Candidate {
	offsets, addrs := functions(t, f, names()...)
	out := make([]Candidate, len(offsets))
	for i, o := range offsets {
		out[i] = Candidate{Place: Place{File: f, Offset: o, PID: pid}, CostNs: costNs}
		for spot, n := range a.Samples {
			if addrs[i] <= spot.Addr && spot.Addr < addrs[i]+3 {
				out[i].Samples += n
			}
		}
	}
	return out
}

func TestRatesOfAProgram(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, work := range []int{10, 1000, 10000} {
		t.Run(fmt.Sprintf("work %d", work), func(t *testing.T) {
			path := testenv.CompileCText(t, ratios, "-O1", "-no-pie", fmt.Sprintf("-DWORK=%d", work))
			r := runRatios(t, path, "work")
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			r.rounds(t)
			time.Sleep(30 * time.Millisecond)
			before := r.rounds(t)
			m := Begin()
			defer m.Close()
			a, err := m.Observe(func(pid int) bool { return pid == r.cmd.Process.Pid })
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			e, err := m.Estimate(candidates(t, f, r.cmd.Process.Pid, a, 1000), 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("estimate took %s; %.2f CPUs, %.2f in user space", time.Since(began), a.CPUs, a.user)
			slow := r.rounds(t)
			t.Logf("rounds before %.0f, during %.0f; estimated %.0f of hot, %.0f of warm, %.0f of cool, %.0f all, %.3f CPUs, at least %v", before, slow, e.Calls[0]/100, e.Calls[1]/10, e.Calls[2], e.PerSecond/111, e.CPUs, e.AtLeast)
			began = time.Now()
			m.Close()
			t.Logf("close took %s", time.Since(began))
		})
	}
}

package rates

import (
	"bufio"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"

	"endoscope/probes/testenv"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ratios calls hot, warm and cool 100, 10 and 1 times a round, and others never;
// for each line of input it says how many rounds it has made in how much
// processor time. Between calls it works for some 0.7 us, so that probes take about
// half of its time, and not so much that the estimate is only a lower bound where
// other programs make the probes dearer. Without an argument it only waits for a line.
const ratios = `
#include <stdio.h>
#include <unistd.h>
#include <poll.h>
#include <time.h>
#define FUNCTION(f) __asm__(".text\n.globl " #f "\n.type " #f ",@function\n" #f ": .cfi_startproc\npush %rbx\n.cfi_adjust_cfa_offset 8\npop %rbx\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n.size " #f ",.-" #f "\n"); void f(void);
FUNCTION(hot) FUNCTION(warm) FUNCTION(cool)
#define NEVER(n) FUNCTION(never0##n) FUNCTION(never1##n) FUNCTION(never2##n) FUNCTION(never3##n)
NEVER(0) NEVER(1) NEVER(2) NEVER(3) NEVER(4) NEVER(5) NEVER(6) NEVER(7) NEVER(8) NEVER(9)
/* An instruction of AMD's FMA4, which the kernel does not probe; never called. */
__asm__(".text\n.globl refused\n.type refused,@function\nrefused: vfmaddsd %xmm0, %xmm1, %xmm2, %xmm3\nret\n.size refused,.-refused\n");
static double now(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static volatile long spun;
int main(int argc, char **argv) {
	struct pollfd in = {0, POLLIN};
	char b[16];
	puts("ready"); fflush(stdout);
	if (argc < 2) return read(0, b, sizeof b) < 0;
	for (;;) {
		double began = now();
		long rounds = 0;
		while (poll(&in, 1, 0) == 0) {
			for (int i = 0; i < 100; i++) {
				hot();
				if (i % 10 == 0) warm();
				for (int k = 0; k < 3000; k++) spun++;
			}
			cool();
			rounds++;
		}
		double took = now() - began;
		if (read(0, b, 1) <= 0) return 0;
		printf("%ld %f\n", rounds, took); fflush(stdout);
	}
}
`

// program is a running target, with the places of its functions.
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	file  *os.File
	in    *os.File
	out   *bufio.Scanner
	addrs []uint64
	cands []Candidate
}

func runRatios(t *testing.T, args ...string) *program {
	t.Helper()
	testenv.NeedUprobes(t)
	path := testenv.CompileCText(t, ratios, "-O1", "-no-pie")
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
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close(); cmd.Wait(); file.Close() })
	p := &program{t: t, cmd: cmd, file: file, in: w, out: bufio.NewScanner(out)}
	p.out.Scan()
	p.find()
	return p
}

// find returns candidates of the target's functions: hot, warm, cool, one that
// the kernel refuses to probe, and others.
func (p *program) find() {
	e, err := elf.NewFile(p.file)
	if err != nil {
		p.t.Fatal(err)
	}
	symbols, err := e.Symbols()
	if err != nil {
		p.t.Fatal(err)
	}
	names := []string{"hot", "warm", "cool", "refused"}
	for i := range 40 {
		names = append(names, fmt.Sprintf("never%d%d", i/10, i%10))
	}
	for _, name := range names {
		i := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == name })
		addr := symbols[i].Value
		for _, l := range e.Progs {
			if l.Type == elf.PT_LOAD && l.Vaddr <= addr && addr < l.Vaddr+l.Filesz {
				p.addrs = append(p.addrs, addr)
				p.cands = append(p.cands, Candidate{Place: Place{File: p.file, Offset: addr - l.Vaddr + l.Off, PID: p.cmd.Process.Pid}, CostNs: 1000})
			}
		}
	}
}

// progress is how many rounds the target has made since the last call, and in how
// many seconds of its processor time.
func (p *program) progress() (rounds, seconds float64) {
	p.t.Helper()
	fmt.Fprintln(p.in)
	if !p.out.Scan() {
		p.t.Fatalf("the target says nothing more: %v, %v", p.out.Err(), p.cmd.Wait())
	}
	if _, err := fmt.Sscan(p.out.Text(), &rounds, &seconds); err != nil {
		p.t.Fatalf("the target says %q: %v", p.out.Text(), err)
	}
	return rounds, seconds
}

func (p *program) observe(m *Meter) Activity {
	p.t.Helper()
	a, err := m.Observe([]int{p.cmd.Process.Pid})
	if err != nil {
		p.t.Fatal(err)
	}
	const size = 3 // of each function
	for i, addr := range p.addrs {
		p.cands[i].Samples = 0
		for spot, n := range a.Samples {
			if addr <= spot.Addr && spot.Addr < addr+size {
				p.cands[i].Samples += n
			}
		}
	}
	return a
}

// code returns the first byte of each function in the target's memory.
func (p *program) code() []byte {
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	defer mem.Close()
	out := make([]byte, len(p.addrs))
	for i, addr := range p.addrs {
		if _, err := mem.ReadAt(out[i:i+1], int64(addr)); err != nil {
			p.t.Fatal(err)
		}
	}
	return out
}

// The rates of functions that are called 100:10:1 times are estimated, although
// probes on the first take half of the program's time. The estimates are the same
// where others leave the program a small part of a processor, which changes from one
// moment to the next: they are of a second of its own time.
func TestRates(t *testing.T) {
	outer := t
	p := runRatios(t, "work")
	untouched := p.code()
	for _, others := range []int{0, 2 * runtime.NumCPU()} {
		t.Run(fmt.Sprintf("beside %d others", others), func(t *testing.T) {
			for range others {
				burn(t)
			}
			p.t = t
			defer func() { p.t = outer }()
			testenv.Once(t, func() error { return checkRates(t, p) })
		})
	}
	if after := p.code(); !slices.Equal(untouched, after) {
		t.Errorf("the program's code was % x and is % x", untouched, after)
	}
}

// checkRates returns how the rates that are estimated differ from those that are
// measured before and after each estimate: the load of the machine changes them.
func checkRates(t *testing.T, p *program) (wrong error) {
	t.Helper()
	var got [3][]float64 // in parts of what was measured
	var all, processors []float64
	before := p.unprobedRounds()
	for range 5 {
		m := Begin()
		a := p.observe(m)
		e, err := m.Estimate(p.cands, 0)
		m.Close()
		if err != nil {
			t.Fatal(err)
		}
		after := p.unprobedRounds()
		rounds := (before + after) / 2
		before = after
		for i, calls := range []float64{100, 10, 1} {
			got[i] = append(got[i], e.Calls[i]/(calls*rounds))
		}
		all = append(all, e.PerSecond/(111*rounds))
		processors = append(processors, a.CPUs)
		if e.CPUs != 0 && (e.CPUs < 0.99e-6*e.PerSecond || e.CPUs > 1.01e-6*e.PerSecond) {
			t.Errorf("%f CPUs for %.0f calls a second of 1 us", e.CPUs, e.PerSecond)
		}
		for i, rate := range e.Calls {
			if i >= 3 {
				t.Errorf("a function that is never called was called %f times a second", rate)
			}
		}
	}
	check := func(what string, got []float64) {
		slices.Sort(got)
		// In a virtual machine where a trap takes as long as ten calls and is not in the samples, less
		// of the slowdown by probes is seen.
		if m := got[len(got)/2]; m < 1./maxSlowdown || m > 2 {
			wrong = errors.Join(wrong, fmt.Errorf("%s: %.3g of what was measured", what, m))
		}
		if lo, hi := got[1], got[len(got)-2]; hi > 3*lo {
			wrong = errors.Join(wrong, fmt.Errorf("%s: %.3g to %.3g of what was measured", what, lo, hi))
		}
	}
	check("processors", processors)
	check("hot", got[0])
	check("warm", got[1])
	check("cool", got[2])
	check("all", all)
	return wrong
}

// unprobedRounds is how many rounds the target makes in a second of processor time
// while nothing is attached, measured over at least 20 ms of that time.
func (p *program) unprobedRounds() float64 {
	p.t.Helper()
	p.progress()
	var seconds, rounds float64
	testenv.Until(p.t, "the target has had processor time", func() bool {
		n, s := p.progress()
		rounds, seconds = rounds+n, seconds+s
		return seconds >= 0.02
	})
	return rounds / seconds
}

// burn keeps a processor busy until the test ends.
func burn(t *testing.T) {
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
}

// Counting ends at a limit: an estimate above it need not be exact.
func TestEstimateStopsAtLimit(t *testing.T) {
	p := runRatios(t, "work")
	testenv.Until(t, "the program has a processor while it is observed", func() bool {
		m := Begin()
		defer m.Close()
		p.observe(m)
		// Candidates without samples follow in batches of their own.
		p.cands[0].Samples = max(p.cands[0].Samples, 1)
		for i := range p.cands[1:] {
			p.cands[i+1].Samples = 0
		}
		e, err := m.Estimate(p.cands, 1e-9)
		if err != nil {
			t.Fatal(err)
		}
		if e.Calls[0] == 0 {
			return false
		}
		if !e.AtLeast || len(e.Calls) != 1 {
			t.Errorf("beyond the limit: %+v", e)
		}
		return true
	})
}

// An idle program is estimated to be idle.
func TestIdleProgramHasNoRates(t *testing.T) {
	p := runRatios(t)
	testenv.UntilNil(t, "it waits", func() error { // it prints that it is ready, and then blocks
		m := Begin()
		defer m.Close()
		if a := p.observe(m); a.CPUs != 0 || len(a.Samples) > 0 {
			return fmt.Errorf("a waiting program was active: %+v", a)
		}
		return nil
	})
}

// A program is not idle that waits for a processor all the time, although another one is free.
func TestWaitingProgramIsNotIdle(t *testing.T) {
	p, other := runRatios(t, "work"), runRatios(t, "work")
	var first unix.CPUSet
	first.Set(0)
	for _, x := range []*program{p, other} {
		if err := unix.SchedSetaffinity(x.cmd.Process.Pid, &first); err != nil {
			t.Fatal(err)
		}
	}
	// It has a processor for a few milliseconds of each second.
	idle := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}
	if err := unix.SchedSetAttr(p.cmd.Process.Pid, &idle, 0); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		m := Begin()
		a := p.observe(m)
		m.Close()
		if len(a.Samples) == 0 && a.CPUs < 0.5 {
			t.Fatalf("the program seems to use %g CPUs: %+v", a.CPUs, a)
		}
	}
}

// Places of a process that has ended count nothing, and an unused meter leaves
// nothing behind.
func TestEndedProcess(t *testing.T) {
	p := runRatios(t)
	m := Begin()
	defer m.Close()
	p.observe(m)
	p.in.Close()
	p.cmd.Wait()
	if e, err := m.Estimate(p.cands, 0); err != nil || len(e.Calls) != 0 {
		t.Errorf("estimate %+v, %v", e, err)
	}
	Begin().Close()
}

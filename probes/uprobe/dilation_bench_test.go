package uprobe

import (
	"debug/elf"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"endoscope/probes/clock"
	"endoscope/probes/codesite"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/program"
)

// turning is a program that counts itself. Each turn calls one function once and does
// work for a given time. Arguments: the file with its state, the function, the work of a
// turn (in steps), how long it sleeps after a turn (in us), and the number of threads.
const turning = `
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#define body(name, first, last) __asm__(".text\n.globl " #name "\n.type " #name ",@function\n" #name ": .cfi_startproc\n" first "\n" last " ret\n.cfi_endproc\n.size " #name ",.-" #name "\n"); void name(void);
body(emulated, "push %rbp", "pop %rbp\n")
body(nop, ".byte 0x0f,0x1f,0x44,0,0", "")
body(stepped, "mov %edi,%edi", "")
struct state { volatile unsigned long turns[8][8]; volatile long more; } *state; // a line for each thread
static long work, pause;
static void (*call)(void);
static void *turn(void *arg) {
	volatile unsigned long *turns = arg;
	for (;;) {
		call();
		for (long i = work + state->more; i > 0; i--) __asm__ volatile("");
		++*turns;
		if (pause) { struct timespec t = {0, pause * 1000}; nanosleep(&t, 0); }
	}
}
int main(int n, char **arg) {
	int fd = open(arg[1], O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, sizeof *state)) return 1;
	state = mmap(0, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	call = *arg[2] == 'e' ? emulated : *arg[2] == 'n' ? nop : stepped;
	work = atol(arg[3]), pause = atol(arg[4]);
	for (long i = atol(arg[5]); i > 1; i--) { pthread_t t; pthread_create(&t, 0, turn, (void *)state->turns[i - 1]); }
	turn((void *)state->turns[0]);
}
`

// turner is a running program of that kind.
type turner struct {
	pid   int
	state *struct {
		turns [8][8]uint64
		more  int64
	}
	threads int
	file    *os.File
	entry   uint64
	method  string
	work    int
}

// stepsPerMicrosecond is what the empty loop of the program takes on this machine.
func stepsPerMicrosecond(b testing.TB, exe string) float64 {
	const work = 1_000_000
	t := startTurner(b, exe, codesite.Nop, work, 0, 1)
	at, turns := clock.Boot(), t.turns()
	time.Sleep(200 * time.Millisecond)
	return float64(t.turns()-turns) * work / float64(clock.Boot()-at) * 1e3
}

func startTurner(b testing.TB, exe, method string, work, pause, threads int) *turner {
	path := filepath.Join(b.TempDir(), "state")
	pid := testenv.Run(b, exec.Command(exe, path, method, strconv.Itoa(work), strconv.Itoa(pause), strconv.Itoa(threads)))
	t := &turner{pid: pid, threads: threads, method: method, work: work}
	testenv.UntilNil(b, "the program has its state", func() error {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		if st, err := f.Stat(); err != nil || st.Size() == 0 {
			return fmt.Errorf("the file is empty: %v", err)
		}
		m, err := unix.Mmap(int(f.Fd()), 0, int(unsafe.Sizeof(*t.state)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			b.Fatal(err)
		}
		t.state = (*struct {
			turns [8][8]uint64
			more  int64
		})(unsafe.Pointer(&m[0]))
		b.Cleanup(func() { _ = unix.Munmap(m) })
		return nil
	})
	testenv.Until(b, "it turns", func() bool { return t.turns() > 0 })
	var err error
	if t.file, err = os.Open(exe); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { t.file.Close() })
	t.entry = symbolOffset(b, exe, method)
	return t
}

func (t *turner) turns() (sum uint64) {
	for i := range t.threads {
		sum += *(*uint64)(unsafe.Pointer(&t.state.turns[i][0])) // written by the program
	}
	return sum
}

// moment is what is read at the borders of the parts of a slice.
type moment struct {
	at    int64 // boot clock, ns
	turns uint64
	cpu   int64 // of the program, ns
	hits  uint64
}

// stretch is the difference of two moments.
type stretch struct{ wall, turns, cpu, hits float64 }

func (m moment) since(o moment) stretch {
	return stretch{float64(m.at - o.at), float64(m.turns - o.turns), float64(m.cpu - o.cpu), float64(m.hits - o.hits)}
}

func (s *stretch) add(o stretch) {
	s.wall += o.wall
	s.turns += o.turns
	s.cpu += o.cpu
	s.hits += o.hits
}

// dilation measures slices of a program's time in which its function is probed.
type dilation struct {
	target   *turner
	in       *program.Installation
	per      []uint64
	attaches bool  // false: A/A
	more     int64 // work that is added in the slices, in steps a turn: a witness must see it
}

func (d *dilation) read() moment {
	var t unix.Timespec
	_ = unix.ClockGettime(processClock(d.target.pid), &t)
	m := moment{turns: d.target.turns(), cpu: t.Nano(), at: clock.Boot()}
	if d.attaches {
		m.hits = d.in.Hits(0, &d.per)
	}
	return m
}

// sliced is the result of some slices: of each the parts, and the untouched time after it.
type sliced struct{ arming, window, closing, gap []stretch }

func (d *dilation) run(b *testing.B, n int, length time.Duration) (r sliced, whole stretch) {
	first := d.read()
	last := first
	for range n {
		start := d.read()
		var l *attach.Link
		if d.attaches {
			var err error
			a := program.ProgramsOf(attach.Session, calls.Unseen)[0]
			if l, err = attach.Uprobes(d.in.Objects.Programs[a.Program], d.target.file, a.AttachType, a.Flags, d.target.pid, attach.Places{Offsets: []uint64{d.target.entry}, Cookies: []uint64{0}}); err != nil {
				b.Fatal(err)
			}
		}
		d.target.state.more = d.more
		begin := d.read()
		time.Sleep(length)
		end := d.read()
		d.target.state.more = 0
		l.Close()
		closed := d.read()
		time.Sleep(length + time.Duration(rand.Int64N(int64(3*length))))
		last = d.read()
		r.arming = append(r.arming, begin.since(start))
		r.window = append(r.window, end.since(begin))
		r.closing = append(r.closing, closed.since(end))
		r.gap = append(r.gap, last.since(closed))
	}
	return r, last.since(first)
}

// lost returns the progress lost in a part of each slice, in ns, as mean and half of its 95 %
// interval. The untouched times after the slices are the measure: a ratio of sums, linearised.
func lost(part, gap []stretch, progress func(stretch) float64) (mean, half float64) {
	g := sum(gap)
	speed := g.turns / progress(g)
	var of []float64
	share := progress(sum(part)) / progress(g)
	for i, p := range part {
		untouched := gap[i].turns/speed - progress(gap[i]) // of mean 0
		of = append(of, progress(p)-p.turns/speed+untouched*share)
	}
	n := float64(len(of))
	for _, v := range of {
		mean += v / n
	}
	for _, v := range of {
		half += (v - mean) * (v - mean)
	}
	return mean, 1.96 * math.Sqrt(half/(n-1)/n)
}

// compiledKernel returns the compiled programs, ready to be loaded.
func compiledKernel(t testing.TB) *program.Kernel {
	t.Helper()
	c, err := program.Read()
	if err != nil {
		t.Fatal(err)
	}
	k, err := program.New(defaultRingBytes, defaultMaxCalls, Options{}.preallocates(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

func sum(of []stretch) (s stretch) {
	for _, x := range of {
		s.add(x)
	}
	return s
}

// BenchmarkDilation gives what slices of a program's time cost it in which one of its
// functions is counted, and what the calls in the slices say of all calls. The program
// counts itself. The rows without a probe (A/A) must lose nothing, those with 1 % more work
// a turn must lose 1 %.
func BenchmarkDilation(b *testing.B) {
	testenv.NeedUprobes(b)
	exe := testenv.CompileCText(b, turning, "-O1", "-pthread")
	speed := stepsPerMicrosecond(b, exe)
	k := compiledKernel(b)
	costs := provider(b, Options{}).knownCosts()
	for _, load := range []struct {
		name           string
		pause, threads int
	}{{"saturated", 0, 1}, {"two threads", 0, 2}, {"waiting", 200, 1}} {
		for _, kind := range []struct {
			name, method string
			attaches     bool
			more         float64
		}{
			{"A/A", codesite.Nop, false, 0}, {"1 % more work", codesite.Nop, false, 0.01},
			{"nop", codesite.Nop, true, 0}, {"emulated", codesite.Emulated, true, 0}, {"stepped", codesite.Stepped, true, 0},
		} {
			for _, rate := range []int{1_000, 10_000, 100_000, 1_000_000} {
				if load.pause > 0 && rate != 1_000 || !kind.attaches && rate != 10_000 && load.pause == 0 {
					continue
				}
				b.Run(fmt.Sprintf("%s/%s/%d", load.name, kind.name, rate), func(b *testing.B) {
					work := int(1e6 / float64(rate) * speed)
					t := startTurner(b, exe, kind.method, work, load.pause, load.threads)
					in, err := k.Load(priced(calls.PriceCounted, attach.Session, 1), 0)
					if err != nil {
						b.Fatal(err)
					}
					defer in.Objects.Close()
					if err := in.Arm(true); err != nil {
						b.Fatal(err)
					}
					d := dilation{target: t, in: in, attaches: kind.attaches, more: int64(kind.more * float64(work))}
					price := 0.0
					if kind.attaches {
						price, _ = costs.Price(calls.PriceCounted, kind.method)
					}
					for b.Loop() {
						r, whole := d.run(b, 300, 2*time.Millisecond)
						report(b, r, whole, price)
					}
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}

// report prints a row: progress lost and estimates of the number of turns.
func report(b *testing.B, r sliced, whole stretch, price float64) {
	wall := func(s stretch) float64 { return s.wall }
	cpu := func(s stretch) float64 { return s.cpu }
	w := sum(r.window)
	loss, half := lost(r.window, r.gap, wall)
	n := float64(len(r.window))
	b.ReportMetric(100*loss/(w.wall/n), "%lost")
	b.ReportMetric(100*half/(w.wall/n), "%±")
	lossCPU, halfCPU := lost(r.window, r.gap, cpu)
	b.ReportMetric(100*lossCPU/(w.cpu/n), "%lostCPU")
	b.ReportMetric(100*halfCPU/(w.cpu/n), "%±CPU")
	for name, part := range map[string][]stretch{"arm": r.arming, "close": r.closing} {
		s := sum(part)
		loss, half := lost(part, r.gap, wall)
		b.ReportMetric(s.wall/n/1e3, "us-"+name)
		b.ReportMetric((loss-s.hits/n*price)/1e3, "us-lost-"+name) // beyond the hits
		b.ReportMetric(half/1e3, "us±-"+name)
	}
	if w.hits == 0 {
		return
	}
	b.ReportMetric(loss*n/w.hits, "ns/hit")
	b.ReportMetric(price, "ns/hit-table")
	all := sum(r.arming)
	all.add(w)
	all.add(sum(r.closing))
	off := func(estimate float64) float64 { return 100 * (estimate/whole.turns - 1) }
	b.ReportMetric(off(w.hits/w.wall*whole.wall), "%wall")
	b.ReportMetric(off(w.hits/w.cpu*whole.cpu), "%cpu")
	b.ReportMetric(off(w.hits/(w.cpu-w.hits*price)*(whole.cpu-all.hits*price)), "%net")
}

// symbolOffset returns the offset of a function in its file.
func symbolOffset(b testing.TB, exe, name string) uint64 {
	b.Helper()
	f, err := elf.Open(exe)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range symbols {
		if s.Name == name {
			text := f.Sections[s.Section]
			return s.Value - text.Addr + text.Offset
		}
	}
	b.Fatalf("%s has no function %s", exe, name)
	return 0
}

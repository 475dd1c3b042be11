package stack

import (
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"endoscope/probes/testenv"
)

// crowd is a program with idle threads and busy ones, each some calls deep.
const crowd = `
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static volatile unsigned long sink;
__attribute__((noinline)) static int down(int n, int busy) {
	volatile char pad[40]; pad[n] = n;
	if (n > 0) return down(n - 1, busy) + pad[n];
	if (!busy) for (;;) pause();
	for (;;) { for (int i = 0; i < 2000; i++) sink += i; usleep(2000); }
}
static void *walk(void *p) { down(12, (long)p); return 0; }
int main(int argc, char **argv) {
	pthread_t t; pthread_attr_t a; pthread_attr_init(&a); pthread_attr_setstacksize(&a, 1 << 17);
	for (int i = 0; i < atoi(argv[1]); i++) pthread_create(&t, &a, walk, (void *)0);
	for (int i = 0; i < atoi(argv[2]); i++) pthread_create(&t, &a, walk, (void *)1);
	puts("1"); fflush(stdout); pause();
}`

// BenchmarkSnapshot takes one sample of each thread of a process every 10 ms, of
// threads that have not run since the last sample and of threads that have. cpu-ns is
// our CPU time, including the kernel's on our behalf.
func BenchmarkSnapshot(b *testing.B) {
	testenv.NeedUprobes(b)
	target := testenv.CompileCText(b, crowd, "-O2", "-pthread", "-fno-optimize-sibling-calls")
	for _, c := range []struct{ idle, busy int }{{1, 0}, {500, 0}, {1000, 0}, {0, 100}, {450, 50}} {
		b.Run("idle "+strconv.Itoa(c.idle)+" busy "+strconv.Itoa(c.busy), func(b *testing.B) {
			r := run(b, target, strconv.Itoa(c.idle), strconv.Itoa(c.busy))
			r.number(b)
			col := collect(b, r.pid)
			threads := 0
			visit := func(*observation) { threads++ }
			for range 3 {
				if err := col.snapshotThreads(visit); err != nil {
					b.Fatal(err)
				}
			}
			threads = 0
			col.tally = tally{}
			b.ReportAllocs()
			var used int64
			for b.Loop() {
				time.Sleep(10 * time.Millisecond) // in which busy threads run
				before := cpuTime()
				if err := col.snapshotThreads(visit); err != nil {
					b.Fatal(err)
				}
				used += cpuTime() - before
			}
			b.ReportMetric(float64(used)/float64(threads), "cpu-ns/thread")
			b.ReportMetric(float64(used)/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(used)/float64(b.N)*10/1e7, "%cpu-at-10Hz")
			b.ReportMetric(float64(used)/float64(b.N)*100/1e7, "%cpu-at-100Hz")
			b.ReportMetric(float64(col.missed)/float64(b.N), "missed/op")
		})
	}
}

// worker is a program that reports, every tenth of a second of its CPU time, how much
// work it has done in it.
const worker = `
#include <stdio.h>
#include <time.h>
static volatile unsigned long sink;
static long cpu(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec * 1000000000 + t.tv_nsec; }
__attribute__((noinline)) static void down(int n) { volatile char pad[40]; pad[n] = n; if (n) down(n - 1); else for (int i = 0; i < 2000; i++) sink += i; }
int main(void) {
	puts("1"); fflush(stdout);
	for (;;) { long n = 0, a = cpu(), b; do { down(12); n++; b = cpu(); } while (b - a < 100000000); printf("%.0f\n", n * 1e9 / (b - a)); fflush(stdout); }
}`

// BenchmarkSlowdown measures how much less a program does in its own CPU time while it
// is sampled, alternating with times when it is not.
func BenchmarkSlowdown(b *testing.B) {
	testenv.NeedUprobes(b)
	target := testenv.CompileCText(b, worker, "-O2", "-fno-optimize-sibling-calls")
	for _, rate := range []time.Duration{10, 100} {
		b.Run(strconv.Itoa(int(rate))+" Hz", func(b *testing.B) {
			r := run(b, target)
			r.number(b)
			col := collect(b, r.pid)
			var alone, sampled float64
			for b.Loop() {
				r.number(b) // from before
				alone += float64(r.number(b))
				stop, stopped := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(stopped)
					tick := time.NewTicker(time.Second / rate)
					defer tick.Stop()
					for {
						select {
						case <-tick.C:
							_ = col.snapshotThreads(func(*observation) {})
						case <-stop:
							return
						}
					}
				}()
				r.number(b)
				sampled += float64(r.number(b))
				close(stop)
				<-stopped
			}
			b.ReportMetric(100*(alone-sampled)/alone, "%slower")
		})
	}
}

// cpuTime returns the CPU time of this process, in ns.
func cpuTime() int64 {
	var u unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkUnwind unwinds the stacks of parked threads repeatedly.
func BenchmarkUnwind(b *testing.B) {
	testenv.NeedUprobes(b)
	r := run(b, testenv.CompileC(b, "testdata/shapes.c", "-O2", "-pthread", "-fno-optimize-sibling-calls"))
	r.number(b)
	c := collect(b, r.pid)
	for _, name := range []string{"read", "callback", "altsignal", "deep"} {
		b.Run(name, func(b *testing.B) {
			var held sample
			err := c.snapshotThreads(func(o *observation) {})
			if err != nil {
				b.Fatal(err)
			}
			fresh := collect(b, r.pid)
			fresh.targets.refresh()
			fresh.spaces, fresh.threads = c.spaces, c.threads
			fresh.kernel.add(r.pid)
			fresh.kernel.waiting(r.pid, func(sample) {})
			fresh.kernel.drain(func(s sample) {
				if string(comm(&s.Comm)) == name {
					held = copied(s)
				}
			})
			sp := c.spaces[r.pid]
			frames := 0
			b.ReportAllocs()
			before := cpuTime()
			for b.Loop() {
				c.unwinder.unwind(sp, held, true)
				frames += len(c.unwinder.frames)
			}
			b.ReportMetric(float64(cpuTime()-before)/float64(frames), "cpu-ns/frame")
			b.ReportMetric(float64(len(c.unwinder.frames)), "frames")
		})
	}
}

// copied returns a copy of a sample, which stays valid.
func copied(s sample) sample {
	header := *s.StackSample
	return sample{StackSample: &header, taken: append(s.taken[:0:0], s.taken...), stack: append([]byte(nil), s.stack...), low: s.low}
}

package procfs

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/clock"
	"endoscope/probes/testenv"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// start runs a program until the end of the test.
func start(t testing.TB, program string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(testenv.NeedProgram(t, program), args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	// Start returns in the middle of exec, before the program has its names.
	testenv.Until(t, program+" has its arguments", func() bool {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", cmd.Process.Pid))
		return err != nil || strings.HasPrefix(string(line), cmd.Args[0]+"\x00")
	})
	return cmd
}

// conversation is a program that answers each line it is sent.
type conversation struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

func converse(t *testing.T, program string) *conversation {
	t.Helper()
	c := &conversation{t: t, cmd: exec.Command(program)}
	c.in, _ = c.cmd.StdinPipe()
	out, _ := c.cmd.StdoutPipe()
	c.out = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.cmd.Process.Kill()
		c.cmd.Wait()
	})
	c.hear()
	return c
}

func (c *conversation) hear() {
	c.t.Helper()
	if line, err := c.out.ReadString('\n'); line != "ready\n" {
		c.t.Fatalf("the program says %q, %v", line, err)
	}
}

func (c *conversation) say(word string) {
	c.t.Helper()
	io.WriteString(c.in, word+"\n")
	c.hear()
}

func last(r *recorder, column string) types.Value {
	vs := r.column(column)
	return vs[len(vs)-1]
}

// mean of the DOUBLE values of a column that are not NULL.
func mean(vs []types.Value) float64 {
	sum, n := 0.0, 0
	for _, v := range vs {
		if !v.IsNull {
			sum += v.F
			n++
		}
	}
	return sum / float64(n)
}

const worker = `
	#include <pthread.h>
	#include <stdio.h>
	#include <stdlib.h>
	#include <string.h>
	#include <fcntl.h>
	#include <time.h>
	#include <unistd.h>
	#include <sys/prctl.h>
	static volatile int spinning;
	static void *spin(void *arg) {
		prctl(PR_SET_NAME, "spinner");
		while (spinning) ;
		return 0;
	}
	static void ready(void) { puts("ready"); fflush(stdout); }
	int main(void) {
		char line[64];
		pthread_t t;
		ready();
		while (fgets(line, sizeof line, stdin)) {
			if (!strncmp(line, "spin", 4)) { spinning = 1; pthread_create(&t, 0, spin, 0); }
			if (!strncmp(line, "rest", 4)) { spinning = 0; pthread_join(t, 0); }
			if (!strncmp(line, "grow", 4)) { char *p = malloc(64 << 20); memset(p, 1, 64 << 20); }
			if (!strncmp(line, "open", 4)) for (int i = 0; i < 10; i++) open("/dev/null", O_RDONLY);
			if (!strncmp(line, "wait", 4)) for (int i = 0; i < 50; i++) usleep(100);
			if (!strncmp(line, "name", 4)) prctl(PR_SET_NAME, "renamed");
			ready();
		}
	}
`

func TestProcessUsageFollowsWhatTheProcessDoes(t *testing.T) {
	program := converse(t, testenv.CompileCText(t, worker, "-pthread"))
	pid := program.cmd.Process.Pid
	r := acquire(t, &plan.Acquire{Stream: "process_usage", Every: 50 * time.Millisecond, Out: schemaOf(t, "process_usage"),
		Target: plan.Target{PIDs: []int{pid}}})
	r.batch()
	before := func(column string) int64 { return last(r, column).I }
	rss, files, faults, threads, switches := before("rss"), before("open_files"), before("minor_faults"), before("threads"), before("voluntary_switches")
	if v := last(r, "percent_cpu"); v.IsNull || v.F > 20 {
		t.Errorf("percent_cpu %v of a process that waits", v)
	}

	for _, word := range []string{"grow", "open", "wait", "spin"} {
		program.say(word)
	}
	for done := clock.Now(); last(r, "timestamp").I <= done; { // samples from before may be queued
		r.batch()
	}
	r.batch()
	if d := last(r, "rss").I - rss; d < 60<<20 || d > 80<<20 {
		t.Errorf("rss grew by %d, want 64 MiB", d)
	}
	if d := last(r, "open_files").I - files; d != 10 {
		t.Errorf("%d files opened, want 10", d)
	}
	if d := last(r, "minor_faults").I - faults; d < 100 {
		t.Errorf("%d faults for 64 MiB", d)
	}
	if d := last(r, "threads").I - threads; d != 1 {
		t.Errorf("%d threads started, want 1", d)
	}
	if d := last(r, "voluntary_switches").I - switches; d < 50 {
		t.Errorf("%d voluntary switches in 50 sleeps", d)
	}

	oracle, err := procfs.NewProc(pid)
	if err != nil {
		t.Fatal(err)
	}
	stat, err := oracle.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if got := uint64(last(r, "vsize").I); got != uint64(stat.VSize) {
		t.Errorf("vsize %d, want %d", got, stat.VSize)
	}
	if n, err := oracle.FileDescriptorsLen(); err != nil || int64(n) != last(r, "open_files").I {
		t.Errorf("open_files %d, want %d, %v", last(r, "open_files").I, n, err)
	}
	if got := last(r, "process").S; got != stat.Comm {
		t.Errorf("process %q, want %q", got, stat.Comm)
	}

	// The sum of the rates against the CPU time reported by the kernel. The
	// windows of the first and the last rate extend beyond this second, in
	// which a busy machine may have given it more or less.
	testenv.Once(t, func() error {
		at, used := time.Now(), stat.CPUTime()
		seen := len(r.column("timestamp"))
		for time.Since(at) < time.Second {
			r.batch()
		}
		if stat, err = oracle.Stat(); err != nil {
			t.Fatal(err)
		}
		want := 100 * (stat.CPUTime() - used) / time.Since(at).Seconds()
		if got := mean(r.column("percent_cpu")[seen:]); math.Abs(got-want) > 10 {
			return fmt.Errorf("percent_cpu is %.1f on average, want %.1f", got, want)
		}
		return nil
	})

	program.say("name")
	program.say("rest")
	testenv.UntilNil(t, "it waits again, with its new name", func() error {
		r.batch()
		cpu, name, n := last(r, "percent_cpu"), last(r, "process").S, last(r, "threads").I
		if cpu.F > 20 || name != "renamed" || n != threads {
			return fmt.Errorf("percent_cpu %v, process %q, %d threads, want %d", cpu, name, n, threads)
		}
		return nil
	})
}

func TestThreadUsage(t *testing.T) {
	program := converse(t, testenv.CompileCText(t, worker, "-pthread"))
	pid := program.cmd.Process.Pid
	r := acquire(t, &plan.Acquire{Stream: "thread_usage", Every: 50 * time.Millisecond, Out: schemaOf(t, "thread_usage"),
		Target: plan.Target{PIDs: []int{pid}}})
	r.batch()
	program.say("spin")
	r.batch()
	tid := otherThread(t, pid)
	// However little CPU time other processes leave: the sum of the rates is
	// what the kernel reports. The windows of the first and the last rate
	// extend beyond this time, in which the process may get more or less.
	testenv.Once(t, func() error {
		used, at := ranFor(t, pid, tid), time.Now()
		seen := len(r.column("tid"))
		for time.Since(at) < 500*time.Millisecond {
			r.batch()
		}
		want := 100 * float64(ranFor(t, pid, tid)-used) / float64(time.Since(at))
		var cpu []types.Value
		rates := r.column("percent_cpu")
		for i, v := range r.column("tid")[:len(rates)] {
			if i >= seen && v.I == int64(tid) {
				cpu = append(cpu, rates[i])
			}
		}
		if got := mean(cpu); math.Abs(got-want) > 15 {
			return fmt.Errorf("a thread that spins uses %.1f %%, want %.1f", got, want)
		}
		return nil
	})
	testenv.Until(t, "there are some rows of the spinner", func() bool {
		r.batch()
		n := 0
		for _, name := range r.column("thread_name") {
			if name.S == "spinner" {
				n++
			}
		}
		return n >= 5
	})
	program.say("rest")
	testenv.Until(t, "the spinner has ended", func() bool {
		r.batch()
		tids := r.column("tid")
		return tids[len(tids)-1].I == int64(pid)
	})

	leader, spinner, named := 0, 0, false
	names, tids, states, rates := r.column("thread_name"), r.column("tid"), r.column("state"), r.column("percent_cpu")
	for i, name := range names {
		if tids[i].I == int64(pid) {
			leader++
			if states[i].S != "S" && states[i].S != "R" {
				t.Errorf("state %q of the leader", states[i].S)
			}
			continue
		}
		spinner++
		if named = named || name.S == "spinner"; named && name.S != "spinner" { // it sets its own name
			t.Errorf("thread %d is %q", tids[i].I, name.S)
		}
		if states[i].S != "R" {
			t.Errorf("state %q of a thread that spins", states[i].S)
		}
		if rates[i].IsNull {
			t.Error("percent_cpu of a thread seen starting is NULL")
		}
	}
	if leader == 0 || spinner < 5 || !named {
		t.Errorf("%d rows of the leader, %d of the spinner, which has its name: %v", leader, spinner, named)
	}
	for i, delay := range r.column("run_delay") {
		if delay.IsNull || delay.I < 0 || delay.Type != types.Duration {
			t.Errorf("run_delay %v of %q", delay, names[i].S)
		}
	}
}

// otherThread waits for a process's second thread.
func otherThread(t *testing.T, pid int) int {
	t.Helper()
	other := 0
	testenv.Until(t, "the program has started a thread", func() bool {
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if tid, _ := strconv.Atoi(e.Name()); tid != pid {
				other = tid
			}
		}
		return other != 0
	})
	return other
}

// ranFor returns the CPU time of a thread: the first number of its schedstat
// (Documentation/scheduler/sched-stats.rst), ns.
func ranFor(t *testing.T, pid, tid int) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/schedstat", pid, tid))
	if err != nil {
		t.Fatal(err)
	}
	ns, _, _ := strings.Cut(string(b), " ")
	n, err := strconv.ParseInt(ns, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(n)
}

func TestStreamEndsWithItsProcesses(t *testing.T) {
	a, b := start(t, "sleep", "60"), start(t, "sleep", "60")
	spec := &plan.Acquire{Stream: "process_usage", Every: time.Hour, Out: schemaOf(t, "process_usage"),
		Target: plan.Target{PIDs: []int{a.Process.Pid, b.Process.Pid}}}
	r := acquire(t, spec)
	a.Process.Kill()
	select {
	case <-r.ended:
		t.Fatal("ended though one of two processes runs")
	case <-time.After(50 * time.Millisecond):
	}
	b.Process.Kill()
	select {
	case <-r.ended:
	case <-time.After(2 * time.Minute):
		t.Fatal("still going on though both processes ended")
	}
	if r.err != nil {
		t.Error(r.err)
	}
}

func TestNewProcessesOfAnExecutableAreFollowed(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "esc-busy")
	b, err := os.ReadFile(testenv.NeedProgram(t, "sh"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, b, 0o755); err != nil {
		t.Fatal(err)
	}
	spin := []string{"-c", "while :; do :; done"}
	for name, target := range map[string]plan.Target{
		"executable": {Exes: []string{program}},
		"process":    {Processes: []string{"esc-busy"}},
	} {
		for _, stream := range []string{"process_usage", "thread_usage"} {
			t.Run(name+" "+stream, func(t *testing.T) {
				first := start(t, program, spin...).Process.Pid
				r := acquire(t, &plan.Acquire{Stream: stream, Every: 20 * time.Millisecond, Target: target,
					Out: schemaOf(t, stream, "timestamp", "pid", "percent_cpu", "exe")})
				r.batch()
				if got := last(r, "pid").I; got != int64(first) {
					t.Errorf("pid %d, want %d", got, first)
				}
				second := start(t, program, spin...)
				ofSecond := func() (rates []types.Value) {
					all := r.column("percent_cpu")
					for i, pid := range r.column("pid") {
						if pid.I == int64(second.Process.Pid) && i < len(all) {
							rates = append(rates, all[i])
						}
					}
					return rates
				}
				// The kernel may not have charged it any time at its first row.
				var rates []types.Value
				for deadline := time.Now().Add(2 * time.Minute); ; r.batch() {
					if rates = ofSecond(); len(rates) > 0 && rates[len(rates)-1].F > 0 || time.Now().After(deadline) {
						break
					}
				}
				// The first row may be of the clock tick in which it started.
				known := slices.IndexFunc(rates, func(v types.Value) bool { return !v.IsNull })
				if n := len(rates); n == 0 || known < 0 || known > 1 || rates[n-1].F <= 0 || rates[n-1].F > 120 {
					t.Errorf("rates %v of a process that started later and spins", rates)
				}
				second.Process.Kill()
				second.Wait()
				ended := clock.Now()
				for last(r, "timestamp").I <= ended {
					r.batch()
				}
				at := r.column("timestamp")
				for i, pid := range r.column("pid")[:len(at)] {
					if at[i].I > ended && pid.I == int64(second.Process.Pid) {
						t.Error("rows of a process that has ended")
					}
				}
			})
		}
	}
}

// A sampler observes a process, not a pid.
func TestReusedPIDIsAnotherProcess(t *testing.T) {
	testenv.NeedRoot(t)
	const nextPID = "/proc/sys/kernel/ns_last_pid"
	if unix.Access(nextPID, unix.W_OK) != nil {
		testenv.Skip(t, "this kernel does not let pids be chosen")
	}
	old := start(t, "sleep", "60")
	pid := old.Process.Pid
	r := acquire(t, &plan.Acquire{Stream: "process_usage", Every: 20 * time.Millisecond, Out: schemaOf(t, "process_usage", "timestamp", "pid"),
		Target: plan.Target{PIDs: []int{pid}, Processes: []string{"sleep"}}})
	r.batch()
	old.Process.Kill()
	old.Wait()
	time.Sleep(20 * time.Millisecond) // a start time is in ticks of 10 ms
	var next *exec.Cmd
	for range 50 {
		os.WriteFile(nextPID, fmt.Append(nil, pid-1), 0o644)
		next = start(t, "cat", "/dev/zero")
		if next.Process.Pid == pid {
			break
		}
		next.Process.Kill()
		next.Wait()
	}
	if next.Process.Pid != pid {
		testenv.Skip(t, "the pid was not given out again")
	}
	began := clock.Now()
	testenv.Until(t, "processes were looked for twice", func() bool { return r.marked(began + 2*int64(rescan)) })
	at := r.column("timestamp")
	for i, v := range r.column("pid")[:len(at)] {
		if at[i].I > began && v.I == int64(pid) {
			t.Fatalf("row %d is of the process that took the pid over", i)
		}
	}
}

func TestManyThreads(t *testing.T) {
	program := converse(t, testenv.CompileCText(t, `
		#include <pthread.h>
		#include <stdio.h>
		#include <unistd.h>
		void *rest(void *arg) { pause(); return 0; }
		int main(void) {
			pthread_attr_t a;
			pthread_t t;
			pthread_attr_init(&a);
			pthread_attr_setstacksize(&a, 65536);
			for (int i = 0; i < 1500; i++) if (pthread_create(&t, &a, rest, 0)) return 1;
			puts("ready"); fflush(stdout);
			pause();
		}
	`, "-pthread"))
	r := acquire(t, &plan.Acquire{Stream: "thread_usage", Every: 200 * time.Millisecond, Out: schemaOf(t, "thread_usage", "timestamp", "tid", "run_delay"),
		Target: plan.Target{PIDs: []int{program.cmd.Process.Pid}}})
	r.batch() // of 1,024 rows
	r.batch()
	at := r.column("timestamp")
	n := 0
	for n < len(at) && at[n] == at[0] {
		n++
	}
	if n != 1501 {
		t.Errorf("%d threads in a sample, want 1501: more than a batch and more than are kept open", n)
	}
}

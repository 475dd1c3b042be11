package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"endoscope/probes/process"
	"endoscope/probes/testenv"
)

// killsPerTarget is how often the tool is killed beside each target: ENDOSCOPE_KILLS if
// set, else few.
func killsPerTarget(t testing.TB) int {
	t.Helper()
	text := os.Getenv("ENDOSCOPE_KILLS")
	if text == "" {
		return 2
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("ENDOSCOPE_KILLS: %v", err)
	}
	return n
}

// The programs check themselves: they end with an error if a result is wrong.
const (
	checkedC = `#include <pthread.h>
#include <stdexcept>
#include <string>
#include <unistd.h>
__attribute__((noinline)) int leaf(int n) { if (n % 97 == 0) throw std::runtime_error(std::to_string(n)); return n * 3; }
__attribute__((noinline)) int deep(int n, int d) { return d ? deep(n, d - 1) + 1 : leaf(n); }
static void *worker(void *) {
	for (int n = 1;; n++) {
		try { if (deep(n, n % 9) != n * 3 + n % 9 || n % 97 == 0) _exit(3); }
		catch (std::exception &e) { if (n % 97 || e.what() != std::to_string(n)) _exit(4); }
		if (n == 1 << 20) n = 1;
	}
}
int main() { pthread_t t; pthread_create(&t, 0, worker, 0); worker(0); }`

	checkedGo = `package main

import "os"

//go:noinline
func grow(n int) int {
	var big [512]int
	big[n%512] = n
	if n == 0 {
		return 0
	}
	return grow(n-1) + big[n%512] - n + 1
}

func main() {
	answers := make(chan int)
	for n := 1; ; n = n%90 + 1 {
		go func() { answers <- grow(n) }()
		if <-answers != n {
			os.Exit(3)
		}
	}
}
`
	checkedJava = `import java.util.*;
public class Checked {
  static int leaf(int n) { if (n % 97 == 0) throw new IllegalStateException("" + n); return n * 3; }
  static int deep(int n, int d) { return d > 0 ? deep(n, d - 1) + 1 : leaf(n); }
  public static void main(String[] a) {
    for (int n = 1;; n = n % 1000000 + 1) {
      List<Integer> garbage = new ArrayList<>(List.of(n, n + 1));
      try { if (deep(n, n % 9) != n * 3 + n % 9 || garbage.get(1) != n + 1) System.exit(3); }
      catch (IllegalStateException e) { if (n % 97 != 0) System.exit(4); }
    }
  }
}`
	checkedNode = `function deep(n, d) { if (d) return deep(n, d - 1) + 1; if (n % 97 == 0) throw new Error(String(n)); return n * 3; }
for (let n = 1;; n = n % 1000000 + 1) {
  try { if (deep(n, n % 9) != n * 3 + n % 9) process.exit(3); }
  catch (e) { if (n % 97 || e.message != String(n)) process.exit(4); }
}`
)

// TestKilledAtAnyMoment kills the tool while it looks for functions, attaches, observes
// or detaches. No target is harmed: it goes on with right results, and its code is that
// of its file. Nothing is left in the kernel.
func TestKilledAtAnyMoment(t *testing.T) {
	testenv.NeedUprobes(t)
	testenv.Long(t)
	program := testenv.Command(t, ".")
	script := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	everywhere := []string{
		"SELECT process, state, COUNT(*) FROM SAMPLE(stack_sample, 10ms) GROUP BY process, state",
		"SET max_overhead = 0; SELECT COUNT(*) FROM allocation",
		"SET max_overhead = 0; SELECT stack, COUNT(*) FROM function_start WHERE function_name LIKE 'm%' AND module = 'libc.so.6' GROUP BY stack",
	}
	native := append(everywhere,
		"SET max_overhead = 0; SET max_probes = 100000; SELECT function_name, COUNT(*) FROM function_start WHERE function_name LIKE '%' GROUP BY function_name",
		"SET max_overhead = 0; SET max_probes = 100000; SELECT function_name, MAX(duration) FROM function_duration WHERE function_name LIKE '%e%' GROUP BY function_name",
		"SET max_overhead = 0; SET max_probes = 100000; SELECT * FROM function_call WHERE function_name LIKE '%d%'",
		"SET max_overhead = 0; SET max_probes = 100000; CREATE TRIGGER k ON function_start WHEN function_name LIKE '%a%' BEGIN MONITOR function_duration WHERE function_name LIKE '%e%' FOR 50ms END")
	for _, c := range []struct {
		name    string
		start   func(t *testing.T) int
		queries []string
	}{
		{"redis", func(t *testing.T) int { return testenv.BusyRedis(t) }, native},
		{"postgres", func(t *testing.T) int { _, backend := testenv.BusyPostgres(t); return backend }, native},
		{"C++", func(t *testing.T) int {
			return testenv.Run(t, exec.Command(testenv.CompileText(t, ".cc", checkedC, "-O1", "-pthread", "-fno-optimize-sibling-calls")))
		}, native},
		{"Go", func(t *testing.T) int { return testenv.Run(t, exec.Command(testenv.CompileGoText(t, checkedGo))) }, native},
		{"Java", func(t *testing.T) int {
			return testenv.Run(t, exec.Command(testenv.NeedProgram(t, "java"), "-Xmx64m", "-cp", testenv.CompileJavaText(t, "Checked", checkedJava), "Checked"))
		}, everywhere},
		{"Node", func(t *testing.T) int {
			return testenv.Run(t, exec.Command(testenv.NeedProgram(t, "node"), script("checked.js", checkedNode)))
		}, everywhere},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := c.start(t)
			goesOn(t, target)
			slowest := time.Duration(0)
			for kill := range killsPerTarget(t) {
				query := c.queries[rand.IntN(len(c.queries))]
				cmd := exec.Command(program, "-p", strconv.Itoa(target), "-c", query)
				cmd.Stdout = io.Discard
				var message bytes.Buffer
				cmd.Stderr = &message
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() { ended <- cmd.Wait() }()
				// A busy machine may take longer to attach than any fixed time: every second
				// kill is counted from the first link.
				within := 2 * time.Second
				if kill%2 == 1 {
					within /= 4
					testenv.Until(t, "something is attached", func() bool {
						_, links := attached(t, cmd.Process.Pid)
						return len(links) > 0 || len(ended) > 0
					})
				}
				at := time.Duration(rand.Int64N(int64(within)))
				select {
				case err := <-ended:
					t.Fatalf("%s ended by itself: %v\n%s", query, err, message.String())
				case <-time.After(at): // the moment of the kill
				}
				_ = cmd.Process.Signal(syscall.SIGSTOP) // what it has attached is known
				programs, links := attached(t, cmd.Process.Pid)
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				<-ended
				t.Logf("%s is killed %v after %s, with %d links", query, at, [...]string{"its start", "the first link"}[kill%2], len(links))
				began := time.Now()
				gone(t, programs, links)
				took := time.Since(began)
				slowest = max(slowest, took)
				t.Logf("nothing is left after %v", took.Round(time.Millisecond))
				goesOn(t, target)
				unchanged(t, target)
			}
			t.Logf("nothing was left after %v or less", slowest.Round(time.Millisecond))
		})
	}
}

// goesOn checks that a busy program still runs.
func goesOn(t testing.TB, pid int) {
	t.Helper()
	before := processorTime(t, pid)
	testenv.Until(t, "the target uses the processor", func() bool { return processorTime(t, pid) > before })
}

// processorTime returns the CPU time of a process's threads, in ns.
func processorTime(t testing.TB, pid int) (sum int64) {
	t.Helper()
	var s process.Stat
	tids, err := process.Threads(pid)
	if err != nil || !process.ReadThreadStat(pid, pid, &s) || s.Ended() {
		t.Fatal("the target has ended")
	}
	for _, tid := range tids {
		ns, _, _ := process.ThreadRuns(pid, tid) // 0 if it has ended
		sum += ns
	}
	return sum
}

// unchanged checks that the code of a program's executable is that of its file.
func unchanged(t testing.TB, pid int) {
	t.Helper()
	exe := fmt.Sprintf("/proc/%d/exe", pid)
	file, err := os.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	text, err := process.Text(pid)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, m := range text {
		if m.Inode != info.Sys().(*syscall.Stat_t).Ino {
			continue
		}
		want := make([]byte, m.End-m.Start)
		got := slices.Clone(want)
		n, _ := file.ReadAt(want, int64(m.Offset)) // the file may end before the page
		testenv.UntilNil(t, "its code is that of its file", func() error {
			if _, err := memory.ReadAt(got[:n], int64(m.Start)); err != nil {
				t.Fatal(err)
			}
			if bytes.Equal(got[:n], want[:n]) {
				return nil
			}
			for i := range got[:n] {
				if got[i] != want[i] {
					return fmt.Errorf("at %#x: % x, in the file % x", m.Start+uint64(i), got[i:min(i+8, n)], want[i:min(i+8, n)])
				}
			}
			return nil
		})
		compared += n
	}
	if compared == 0 {
		t.Error("no code was compared")
	}
}

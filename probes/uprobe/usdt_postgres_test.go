package uprobe

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// conversation is a session with a PostgreSQL server.
type conversation struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Scanner
	pid int // of the process that serves it
}

// converse connects to the server of a postmaster.
func converse(t *testing.T, postmaster int) *conversation {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cwd/postmaster.pid", postmaster))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n") // pid, directory, time, port, directory of the socket
	cmd := exec.Command(testenv.NeedProgram(t, "psql"), "-X", "-A", "-t", "-q", "-h", lines[4], "-p", lines[3], "-U", "postgres", "postgres")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	c := &conversation{t: t, in: in, out: bufio.NewScanner(out)}
	c.pid, _ = strconv.Atoi(c.ask("SELECT pg_backend_pid();"))
	return c
}

// ask returns the result of a statement, which has one line.
func (c *conversation) ask(statement string) string {
	c.t.Helper()
	fmt.Fprintln(c.in, statement)
	if !c.out.Scan() {
		c.t.Fatalf("no answer to %s", statement)
	}
	return c.out.Text()
}

// bpftrace counts executions of a marked place until it is stopped.
func bpftrace(t *testing.T, pid int, place string) (count func() string) {
	t.Helper()
	cmd := exec.Command(testenv.NeedProgram(t, "bpftrace"), "-p", strconv.Itoa(pid), "-e", place+" { @ = count(); }")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	over := time.AfterFunc(2*time.Minute, func() { cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "Attaching") {
		t.Fatalf("bpftrace says %q", lines.Text())
	}
	// It prints this before it is attached.
	testenv.Until(t, "bpftrace has attached its probe", func() bool { return hasProbe(t, cmd.Process.Pid) })
	return func() string {
		// Repeated, because a signal that arrives before its handler is installed, or
		// while it attaches, is lost.
		stop := make(chan struct{})
		go func() {
			for {
				cmd.Process.Signal(syscall.SIGINT)
				select {
				case <-stop:
					return
				case <-time.After(time.Second):
				}
			}
		}()
		said := ""
		for lines.Scan() {
			said += lines.Text()
		}
		close(stop)
		cmd.Wait()
		over.Stop()
		return said
	}
}

func exe(t *testing.T, pid int) string {
	t.Helper()
	p, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// hasProbe reports whether a process of bpftrace has attached its probe: it opens a perf
// event for each CPU, for its output, and then that of the probe. It fails the test if the
// process has ended.
func hasProbe(t *testing.T, pid int) bool {
	t.Helper()
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(fds) == 0 {
		t.Fatalf("bpftrace has ended: %v", err)
	}
	events := 0
	for _, fd := range fds {
		if to, _ := os.Readlink(fd); strings.Contains(to, "perf_event") {
			events++
		}
	}
	return events > runtime.NumCPU()
}

// PostgreSQL's own probes fire as often as bpftrace counts and as there are statements,
// and their semaphores are raised for that.
func TestMarkedPlacesOfPostgres(t *testing.T) {
	testenv.NeedUprobes(t)
	postmaster, _ := testenv.BusyPostgres(t)
	c := converse(t, postmaster)
	path := exe(t, c.pid)
	count := bpftrace(t, c.pid, "usdt:"+path+":postgresql:query__start")
	p := provider(t, Options{})
	target := plan.Target{PIDs: []int{c.pid}}
	src, got := start(t, p, testplan.Acquire(catalog.FunctionStart, target, testplan.Named("usdt:postgresql:query__start", "usdt:postgresql:transaction__commit"), "timestamp", "function_name", "pid"))
	const statements = 100
	for i := range statements {
		if answer := c.ask(fmt.Sprintf("SELECT %d;", i)); answer != strconv.Itoa(i) {
			t.Fatalf("the answer to SELECT %d is %s", i, answer)
		}
	}
	c.ask("SELECT 'last';") // the commit comes before the next statement's answer
	if err := src.Stop(); err != nil {
		t.Fatal(err)
	}
	theirs := count()
	names := tally(got.strings("function_name"))
	if n := names["usdt:postgresql:query__start"]; n != statements+1 || theirs != fmt.Sprintf("@: %d", n) {
		t.Errorf("%d statements began, by bpftrace %q, and there were %d", n, theirs, statements+1)
	}
	if n := names["usdt:postgresql:transaction__commit"]; n != statements+1 {
		t.Errorf("%d transactions were committed, want %d", n, statements+1)
	}
	if pids := tally(got.ints("pid")); len(pids) != 1 || len(got.lost) > 0 {
		t.Errorf("rows by process: %v; lost %v", pids, got.lost)
	}
}

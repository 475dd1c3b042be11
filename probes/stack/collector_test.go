package stack

import (
	"bufio"
	"io"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/process"
	"endoscope/probes/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// provider is shared by all tests, so that each file is read once.
var provider = New(nil)

// target is a program that runs for the length of a test.
type target struct {
	pid   int
	in    io.Writer
	lines *bufio.Scanner // of its output
}

// run starts a program. It is killed at the end of the test.
func run(t testing.TB, name string, args ...string) *target {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // with its children
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
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		in.Close()
		io.Copy(io.Discard, out)
		cmd.Wait()
	})
	return &target{cmd.Process.Pid, in, bufio.NewScanner(out)}
}

// sleeping starts a program that sleeps, and returns when it sleeps.
func sleeping(t testing.TB) *target {
	t.Helper()
	r := run(t, testenv.NeedProgram(t, "sleep"), "1000")
	testenv.AwaitSleep(t, r.pid)
	return r
}

// line returns the next line of its output.
func (r *target) line(t testing.TB) string {
	t.Helper()
	if !r.lines.Scan() {
		t.Fatal("the target ended")
	}
	return r.lines.Text()
}

// number returns the next line as a number.
func (r *target) number(t testing.TB) int {
	t.Helper()
	n, err := strconv.Atoi(r.line(t))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// collect opens a collector of processes for the duration of a test.
func collect(t testing.TB, pids ...int) *collector {
	t.Helper()
	var found []process.Process
	for _, pid := range pids {
		p, ok := process.Lookup(pid)
		if !ok {
			t.Fatalf("process %d has ended", pid)
		}
		found = append(found, p)
	}
	s := &source{provider: provider, target: plan.Target{PIDs: pids}, found: found, spec: &plan.Acquire{}}
	c, err := s.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

// seen is a copy of an observation.
type seen struct {
	name, state, syscall string
	functions            []string // leaf first
	origins              []string
	modules              []string
	complete, runnable   bool
	cause                cause
}

// snapshot takes a snapshot and returns it by tid.
func snapshot(t testing.TB, c *collector) map[int]seen {
	t.Helper()
	out := map[int]seen{}
	err := c.snapshotThreads(func(o *observation) {
		if _, twice := out[int(o.tid)]; twice {
			t.Errorf("thread %d is observed twice", o.tid)
		}
		s := seen{name: o.name, state: o.state.String(), syscall: syscallName(o.nr), complete: o.stack.complete, runnable: o.runnable, cause: o.cause}
		for _, f := range o.stack.value.([]types.Value) {
			v := f.A.([]types.Value)
			s.functions = append(s.functions, v[0].S)
			s.modules = append(s.modules, v[1].S)
			s.origins = append(s.origins, v[2].S)
		}
		out[int(o.tid)] = s
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func byName(ss map[int]seen) map[string]seen {
	out := map[string]seen{}
	for _, s := range ss {
		out[s.name] = s
	}
	return out
}

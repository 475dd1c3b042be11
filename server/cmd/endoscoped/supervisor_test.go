package main

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"endoscope/probes/testenv"
)

// supervised is a daemon with a supervisor and a worker.
type supervised struct {
	*exec.Cmd
	t      *testing.T
	client *flightsql.Client
	log    *testenv.Buffer
	socket string
}

func supervise(t *testing.T) *supervised {
	t.Helper()
	dir := t.TempDir()
	program := testenv.Command(t, ".")
	s := &supervised{t: t, log: &testenv.Buffer{}, socket: filepath.Join(dir, "s")}
	s.Cmd = exec.Command(program, "--unix", s.socket, "--config", filepath.Join(dir, "none"))
	s.Stderr = s.log
	s.WaitDelay = time.Minute
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.ProcessState == nil {
			_ = s.Process.Signal(syscall.SIGTERM)
			_ = s.Wait()
		}
	})
	var err error
	if s.client, err = flightsql.NewClient("unix:"+s.socket, nil, nil, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.client.Close() })
	s.answers()
	return s
}

// answers waits until the daemon answers.
func (s *supervised) answers() {
	s.t.Helper()
	testenv.Until(s.t, "the daemon answers", func() bool {
		n, err := number(s.client, "SELECT COUNT(*) FROM series(5)")
		return err == nil && n == 5
	})
}

// worker returns the process id of the worker; 0: there is none.
func (s *supervised) worker() int {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", s.Process.Pid))
	for _, file := range tasks {
		text, _ := os.ReadFile(file)
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				return pid
			}
		}
	}
	return 0
}

// execute begins an endless statement, and returns when it runs; over receives its error.
func (s *supervised) execute(statement string) (over chan error) {
	s.t.Helper()
	over = make(chan error, 1)
	go func() {
		_, err := number(s.client, statement)
		over <- err
	}()
	testenv.Until(s.t, "the statement runs", func() bool {
		select {
		case err := <-over:
			s.t.Fatalf("%s has ended: %v", statement, err)
		default:
		}
		n, err := number(s.client, "SELECT COUNT(*) FROM sys.queries WHERE state = 'running' AND statement = '"+strings.ReplaceAll(statement, "'", "''")+"'")
		return err == nil && n == 1
	})
	return over
}

// kill kills the worker, and returns when another one answers.
func (s *supervised) kill(over chan error) {
	s.t.Helper()
	old := s.worker()
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
	if err := <-over; err == nil {
		s.t.Error("the statement ended without an error")
	}
	testenv.Until(s.t, "there is another worker", func() bool { pid := s.worker(); return pid != 0 && pid != old })
	s.answers()
}

// A worker that is killed is restarted behind the same socket. A statement that was being
// executed at two deaths is refused. The daemon ends as one.
func TestWorkerIsRestarted(t *testing.T) {
	s := supervise(t)
	before, err := os.Stat(s.socket)
	if err != nil {
		t.Fatal(err)
	}
	const killer, innocent = "SELECT used FROM SAMPLE(memory_usage, 10ms) WHERE 'killer' <> ''", "SELECT used FROM SAMPLE(memory_usage, 10ms)"
	first := s.execute(innocent)
	s.kill(s.execute(killer))
	if err := <-first; err == nil {
		t.Error("a statement outlived its worker")
	}
	s.kill(s.execute(killer))
	_, err = number(s.client, killer)
	if err == nil || !strings.Contains(err.Error(), "the daemon died twice while it executed this statement") {
		t.Errorf("the statement again: %v", err)
	}
	if _, err := number(s.client, killer+" LIMIT 1"); err != nil {
		t.Errorf("another statement: %v", err)
	}
	if _, err := number(s.client, innocent+" LIMIT 1"); err != nil {
		t.Errorf("a statement of the first death only: %v", err)
	}
	if after, err := os.Stat(s.socket); err != nil || !os.SameFile(before, after) {
		t.Errorf("the socket is another one: %v", err)
	}
	log := s.log.String()
	if strings.Count(log, `msg="the worker has died, and is restarted" cause="signal: killed"`) != 2 || strings.Count(log, "refused=true") != 1 {
		t.Errorf("logged:\n%s", log)
	}
	last := s.worker()
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); err != nil {
		t.Errorf("it ends with %v:\n%s", err, s.log)
	}
	if err := syscall.Kill(last, 0); err == nil {
		t.Error("the worker outlives the supervisor")
	}
	if _, err := os.Stat(s.socket); err == nil {
		t.Error("the socket is still there")
	}
}

// A worker does not outlive a supervisor that is killed.
func TestWorkerEndsWithItsSupervisor(t *testing.T) {
	s := supervise(t)
	worker := s.worker()
	if err := s.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.Wait()
	testenv.Until(t, "the worker has ended", func() bool {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", worker))
		return err != nil || bytes.Contains(state, []byte(") Z ")) // nobody may collect it
	})
}

// Mistakes end the daemon: it is not restarted.
func TestMistakesAreNotRestarted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	program := testenv.Command(t, ".")
	out, err := exec.CommandContext(ctx, program, "--unix", filepath.Join(t.TempDir(), "s"), "--access", "/nowhere").CombinedOutput()
	if e, ok := err.(*exec.ExitError); !ok || e.ExitCode() != 1 || strings.Count(string(out), "error: --access /nowhere") != 1 {
		t.Errorf("%v: %s", err, out)
	}
}

// Nothing stays attached when a worker is killed.
func TestProbesEndWithTheWorker(t *testing.T) {
	testenv.NeedUprobes(t)
	built := testenv.CompileCText(t, `#include <unistd.h>
__attribute__((noinline)) int work(int i) { __asm__ volatile(""); return i + 1; }
int main(void) { volatile int s = 0; for (;;) { s = work(s); usleep(1000); } }`, "-O1", "-no-pie")
	target := exec.Command(built)
	if err := target.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { target.Process.Kill(); target.Wait() })
	f, err := elf.Open(built)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	var address, size uint64
	for _, s := range symbols {
		if s.Name == "work" {
			address, size = s.Value, s.Size
		}
	}
	text := func() string {
		mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", target.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		defer mem.Close()
		b := make([]byte, size)
		if _, err := mem.ReadAt(b, int64(address)); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%x", b)
	}
	testenv.Until(t, "the program runs", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", target.Process.Pid))
		return err == nil && bytes.Contains(b, []byte(filepath.Base(built)))
	})
	clean := text()
	s := supervise(t)
	over := s.execute(fmt.Sprintf("SELECT tid FROM function_start WHERE pid = %d AND function_name = 'work'", target.Process.Pid))
	testenv.Until(t, "the function is probed", func() bool { return text() != clean })
	s.kill(over)
	testenv.Until(t, "nothing is attached any more", func() bool { return text() == clean })
	if n, err := number(s.client, "SELECT COUNT(*) FROM sys.probes"); err != nil || n != 0 {
		t.Errorf("%d probes: %v", n, err)
	}
	if n, err := number(s.client, fmt.Sprintf("SELECT tid FROM function_start WHERE pid = %d AND function_name = 'work' LIMIT 1", target.Process.Pid)); err != nil || n == 0 {
		t.Errorf("the new worker sees a call of thread %d: %v", n, err)
	}
}

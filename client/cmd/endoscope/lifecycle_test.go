package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"endoscope/probes/testenv"
)

// attached returns the eBPF programs and links whose descriptors a process holds.
func attached(t testing.TB, pid int) (programs, links []uint32) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // closed in the meantime
		}
		for line := range bytes.Lines(text) {
			key, value, _ := strings.Cut(string(line), ":")
			id, err := strconv.ParseUint(strings.TrimSpace(value), 10, 32)
			switch {
			case err != nil:
			case key == "link_id":
				links = append(links, uint32(id))
			case key == "prog_id":
				programs = append(programs, uint32(id))
			}
		}
	}
	return programs, links
}

// gone waits until none of the programs and links exist in the kernel.
func gone(t testing.TB, programs, links []uint32) {
	t.Helper()
	testenv.UntilNil(t, "the kernel knows none of the programs and links", func() error {
		var left []string
		for _, id := range programs {
			if p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id)); err == nil {
				left = append(left, p.String())
				p.Close()
			} else if !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
		for _, id := range links {
			if l, err := link.NewFromID(link.ID(id)); err == nil {
				left = append(left, fmt.Sprintf("link %d", id))
				l.Close()
			} else if !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("there are %v", left)
		}
		return nil
	})
}

// TestNothingStays ends a query in every possible way and checks that nothing it
// attached is left in the kernel.
func TestNothingStays(t *testing.T) {
	testenv.NeedUprobes(t)
	testenv.Interruptible(t)
	program := testenv.Command(t, ".")
	source := `#include <unistd.h>
int work(int i) { return i + 1; }
int main(void) { volatile int s = 0; for (;;) { s = work(s); usleep(1000); } }`
	target := testenv.CompileCText(t, source, "-O1", "-fno-inline")

	for _, c := range []struct {
		name string
		sql  string
		end  func(query, target *os.Process) error
		exit int // of the query; -1: killed
		rows bool
	}{
		{"normal end", "FOR 10s", func(_, _ *os.Process) error { return nil }, 0, true},
		{"Ctrl-C", "", func(q, _ *os.Process) error { return q.Signal(syscall.SIGINT) }, 0, true},
		{"SIGTERM", "", func(q, _ *os.Process) error { return q.Signal(syscall.SIGTERM) }, 0, true},
		{"kill -9", "", func(q, _ *os.Process) error { return q.Kill() }, -1, false},
		{"exit of the target", "", func(_, t *os.Process) error { return t.Kill() }, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			victim := exec.Command(target)
			if err := victim.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { victim.Process.Kill(); victim.Wait() }()
			query := exec.Command(program, "-p", strconv.Itoa(victim.Process.Pid),
				"-c", "SELECT COUNT(*) FROM function_duration WHERE function_name = 'work' "+c.sql)
			var out, msg testenv.Buffer
			query.Stdout, query.Stderr = &out, &msg
			if err := query.Start(); err != nil {
				t.Fatal(err)
			}
			defer query.Process.Kill()
			var programs, links []uint32
			testenv.UntilNil(t, "something is attached", func() error {
				if programs, links = attached(t, query.Process.Pid); len(links) == 0 {
					return errors.New(msg.String())
				}
				return nil
			})
			testenv.UntilNil(t, "the query is armed", func() error {
				if out.String() == "" {
					return errors.New(msg.String())
				}
				return nil
			})
			ps, ls := attached(t, query.Process.Pid)
			programs, links = append(programs, ps...), append(links, ls...)
			ran := processorTime(t, victim.Process.Pid)
			testenv.Until(t, "the target has called its function", func() bool {
				return processorTime(t, victim.Process.Pid) > ran+int64(time.Millisecond)
			})
			if err := c.end(query.Process, victim.Process); err != nil {
				t.Fatal(err)
			}
			if c.name == "exit of the target" {
				victim.Wait() // a zombie would still exist
			}
			query.Wait()
			if code := query.ProcessState.ExitCode(); code != c.exit {
				t.Errorf("exit code %d: %s", code, msg.String())
			}
			gone(t, programs, links)
			if !c.rows {
				return
			}
			lines := strings.Fields(out.String())
			if len(lines) != 2 || lines[0] != "count(*)" {
				t.Fatalf("the result was %q", out.String())
			}
			if n, _ := strconv.Atoi(lines[1]); n == 0 {
				t.Error("no calls were counted")
			}
			if !strings.Contains(msg.String(), "complete") {
				t.Errorf("the footer was %q", msg.String())
			}
			if c.name != "exit of the target" && victim.Process.Signal(syscall.Signal(0)) != nil {
				t.Error("the target did not survive")
			}
		})
	}
}

// TestNothingOfTriggersStays ends a trigger that has attached probes for itself and
// for its action, in every possible way.
func TestNothingOfTriggersStays(t *testing.T) {
	testenv.NeedUprobes(t)
	testenv.Interruptible(t)
	program := testenv.Command(t, ".")
	target := testenv.CompileCText(t, `#include <unistd.h>
int work(int i) { return i + 1; }
int main(void) { volatile int s = 0; for (;;) { s = work(s); usleep(1000); } }`, "-O1", "-fno-inline")
	for _, c := range []struct {
		name string
		end  func(endoscope, target *os.Process) error
		exit int // -1: killed
	}{
		{"Ctrl-C", func(e, _ *os.Process) error { return e.Signal(syscall.SIGINT) }, 0},
		{"kill -9", func(e, _ *os.Process) error { return e.Kill() }, -1},
		{"exit of the target", func(_, t *os.Process) error { return t.Kill() }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			victim := exec.Command(target)
			if err := victim.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { victim.Process.Kill(); victim.Wait() }()
			cmd := exec.Command(program, "-p", strconv.Itoa(victim.Process.Pid), "-c",
				"CREATE TRIGGER t ON function_start WHEN function_name = 'work' AND arg0 > 100 BEGIN MONITOR function_duration WHERE function_name = 'work' END")
			var msg bytes.Buffer
			cmd.Stderr = &msg
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Process.Kill()
			lines := bufio.NewScanner(out)
			for n := 0; n < 10 && lines.Scan(); { // until the action is armed
				if strings.Contains(lines.Text(), "MONITOR function_duration") {
					n++
				}
			}
			programs, links := attached(t, cmd.Process.Pid)
			if len(links) < 2 {
				t.Errorf("%d links: the trigger's and the action's are not both there: %s", len(links), msg.String())
			}
			if err := c.end(cmd.Process, victim.Process); err != nil {
				t.Fatal(err)
			}
			if c.name == "exit of the target" {
				victim.Wait()
			}
			for lines.Scan() {
			}
			cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != c.exit {
				t.Errorf("exit code %d: %s", code, msg.String())
			}
			gone(t, programs, links)
			if c.name != "exit of the target" && victim.Process.Signal(syscall.Signal(0)) != nil {
				t.Error("the target did not survive")
			}
		})
	}
}

// TestWrongStatements runs every wrong statement of the golden files as a user would,
// some in a process of their own: each yields one error and exit code 1.
func TestWrongStatements(t *testing.T) {
	testenv.Long(t)
	command := testenv.Command(t, ".")
	statements := append(goldenStatements(t, "../../../parser/testdata/errors/*", "error"),
		goldenStatements(t, "../../../planner/testdata/errors/*", "refused")...)
	if len(statements) < 120 {
		t.Fatalf("only %d wrong statements were found", len(statements))
	}
	t.Chdir(t.TempDir())
	for i, s := range statements {
		var out, msg bytes.Buffer
		var code int
		if i%16 == 0 {
			cmd := exec.Command(command, "-c", s)
			cmd.Stdout, cmd.Stderr = &out, &msg
			cmd.Run()
			code = cmd.ProcessState.ExitCode()
		} else {
			p := program()
			p.Stdout, p.Stderr = &out, &msg
			code = p.Run(t.Context(), []string{"-c", s})
		}
		if code != 1 {
			t.Errorf("%s: exit code %d\n%s", s, code, msg.String())
		}
		if out.Len() > 0 {
			t.Errorf("%s: printed %q", s, out.String())
		}
		if strings.Count(msg.String(), "error:") != 1 || strings.Contains(msg.String(), "goroutine") {
			t.Errorf("%s: printed\n%s", s, msg.String())
		}
	}
}

// goldenStatements returns the inputs of datadriven files. The parser's files have
// one statement per line, the planner's one per case.
func goldenStatements(t *testing.T, pattern, command string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v", pattern, err)
	}
	var out []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		in := false
		for sc := bufio.NewScanner(bytes.NewReader(text)); sc.Scan(); {
			switch line := sc.Text(); {
			case line == command:
				in = true
			case line == "----":
				in = false
			case in && strings.TrimSpace(line) != "":
				out = append(out, line)
			}
		}
	}
	return out
}

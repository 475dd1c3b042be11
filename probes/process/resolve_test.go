package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"endoscope/planner/plan"
	"endoscope/probes/testenv"

	"golang.org/x/sys/unix"
)

// copyProgram copies an installed program to a new path, so that its process
// has a name and an executable of its own.
func copyProgram(t testing.TB, program, to string) string {
	t.Helper()
	b, err := os.ReadFile(testenv.NeedProgram(t, program))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestResolve(t *testing.T) {
	dir := t.TempDir()
	sleeper := copyProgram(t, "sleep", filepath.Join(dir, "esc-sleeper-with-a-long-name"))
	link := filepath.Join(dir, "link")
	if err := os.Symlink(sleeper, link); err != nil {
		t.Fatal(err)
	}
	unused := copyProgram(t, "sleep", filepath.Join(dir, "unused"))
	a, b := start(t, sleeper, "60").Process.Pid, start(t, link, "60").Process.Pid
	other := start(t, testenv.NeedProgram(t, "sleep"), "60").Process.Pid
	long := "esc-sleeper-wit" // the part of the name that the kernel keeps

	for _, c := range []struct {
		name   string
		target plan.Target
		want   []int
	}{
		{"pid", plan.Target{PIDs: []int{other}}, []int{other}},
		{"pids once each, ordered", plan.Target{PIDs: []int{b, a, b}}, []int{a, b}},
		{"kernel's name", plan.Target{Processes: []string{long}}, []int{a}},
		{"full name", plan.Target{Processes: []string{"esc-sleeper-with-a-long-name"}}, []int{a}},
		{"executable", plan.Target{Exes: []string{sleeper}}, []int{a, b}},
		{"executable by symbolic link", plan.Target{Exes: []string{link}}, []int{a, b}},
		{"executable that nobody runs", plan.Target{Exes: []string{unused}}, nil},
		{"alternatives", plan.Target{PIDs: []int{other}, Processes: []string{long}, Exes: []string{sleeper}}, []int{a, b, other}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ps, err := Resolve(c.target)
			if err != nil {
				t.Fatal(err)
			}
			var got []int
			for _, p := range ps {
				got = append(got, p.PID)
			}
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}

	t.Run("executable deleted since", func(t *testing.T) {
		if err := os.Remove(sleeper); err != nil {
			t.Fatal(err)
		}
		ps, err := Resolve(plan.Target{Exes: []string{sleeper}})
		if err != nil || len(ps) != 2 || ps[0].Exe != sleeper {
			t.Errorf("got %v, %v; both processes still run it", ps, err)
		}
	})
}

func TestResolveRefuses(t *testing.T) {
	dir := t.TempDir()
	sleeper := copyProgram(t, "sleep", filepath.Join(dir, "esc-sleepy"))
	start(t, sleeper, "60")
	script := filepath.Join(dir, "script")
	text := filepath.Join(dir, "text")
	fifo := filepath.Join(dir, "fifo")
	os.WriteFile(script, []byte("#!/usr/bin/env python3\nprint(1)\n"), 0o755)
	os.WriteFile(text, []byte("hello"), 0o755)
	if err := unix.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}
	zombie := exec.Command(testenv.NeedProgram(t, "true"))
	if err := zombie.Start(); err != nil {
		t.Fatal(err)
	}
	defer zombie.Wait()
	ended, stop, err := Watch(zombie.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	<-ended
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := unix.Gettid()
	if thread == os.Getpid() { // another one is no leader
		tids, over := make(chan int), make(chan struct{})
		defer close(over)
		go func() {
			runtime.LockOSThread()
			tids <- unix.Gettid()
			<-over
		}()
		thread = <-tids
	}

	for _, c := range []struct {
		name      string
		target    plan.Target
		msg, hint string
	}{
		{"no such pid", plan.Target{PIDs: []int{1 << 30}},
			"there is no process 1073741824", "SHOW PROCESSES lists those that run"},
		{"negative pid", plan.Target{PIDs: []int{-1}},
			"there is no process -1", "SHOW PROCESSES lists those that run"},
		{"zombie", plan.Target{PIDs: []int{zombie.Process.Pid}},
			fmt.Sprintf("process %d (true) has ended and only waits for its parent to collect it", zombie.Process.Pid), ""},
		{"thread", plan.Target{PIDs: []int{thread}},
			fmt.Sprintf("%d is a thread of process %d", thread, os.Getpid()), fmt.Sprintf("pid = %d AND tid = %d", os.Getpid(), thread)},
		{"misspelt name", plan.Target{Processes: []string{"esc-sleppy"}},
			"no process is named 'esc-sleppy'", "there is 'esc-sleepy'"},
		{"unheard-of name", plan.Target{Processes: []string{"qqqqqqqqqqqqqqq"}},
			"no process is named 'qqqqqqqqqqqqqqq'", "SHOW PROCESSES lists those that run"},
		{"misspelt path", plan.Target{Exes: []string{dir + "/esc-sleppy"}},
			dir + "/esc-sleppy does not exist", "there is '" + sleeper + "'"},
		{"path below a file", plan.Target{Exes: []string{text + "/x"}},
			text + "/x does not exist", ""},
		{"directory", plan.Target{Exes: []string{dir}}, dir + " is a directory", ""},
		{"fifo", plan.Target{Exes: []string{fifo}}, fifo + " is not a regular file", ""},
		{"device", plan.Target{Exes: []string{"/dev/null"}}, "/dev/null is not a regular file", ""},
		{"script", plan.Target{Exes: []string{script}},
			script + " is a script", "name the program that runs it, /usr/bin/env"},
		{"text", plan.Target{Exes: []string{text}}, text + " is not a native program (ELF)", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.target.Start, c.target.Stop = 7, 11
			ps, err := Resolve(c.target)
			var pe *plan.Error
			if !errors.As(err, &pe) {
				t.Fatalf("got %v, %v; want a refusal", ps, err)
			}
			if pe.Msg != c.msg || pe.Hint != c.hint {
				t.Errorf("got  %s\nhint %s\nwant %s\nhint %s", pe.Msg, pe.Hint, c.msg, c.hint)
			}
			if pe.Start != 7 || pe.Stop != 11 {
				t.Errorf("placed at %d-%d", pe.Start, pe.Stop)
			}
		})
	}
}

func TestResolveRefusesKernelThreads(t *testing.T) {
	var buf [statBytes]byte
	var s Stat
	if !readStat(2, buf[:], &s) || !s.Kernel() {
		testenv.Skip(t, "process 2 is no kernel thread here")
	}
	for _, target := range []plan.Target{{PIDs: []int{2}}, {Processes: []string{"kthreadd"}}} {
		_, err := Resolve(target)
		if err == nil || !strings.Contains(err.Error(), "is a kernel thread: it runs no program") {
			t.Errorf("%+v: %v", target, err)
		}
	}
}

func TestSessionTargetHasNoPlace(t *testing.T) {
	_, err := Resolve(plan.Target{PIDs: []int{1 << 30}})
	var pe *plan.Error
	if !errors.As(err, &pe) || pe.Start >= 0 {
		t.Errorf("got %#v; the statement does not contain the session's target", err)
	}
}

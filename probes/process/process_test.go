package process

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	_ "endoscope/operators/optest/seeds" // the same cases in every run
	"endoscope/probes/testenv"

	"github.com/prometheus/procfs"
	"pgregory.net/rapid"
)

// start runs a program until the end of the test.
func start(t testing.TB, program string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	// Start returns in the middle of exec, before the program has its names.
	testenv.Until(t, program+" has its arguments", func() bool {
		line, err := os.ReadFile(path(cmd.Process.Pid, "cmdline"))
		return err != nil || strings.HasPrefix(string(line), program+"\x00")
	})
	return cmd
}

func TestLookup(t *testing.T) {
	cmd := start(t, testenv.NeedProgram(t, "sleep"), "60")
	got, ok := Lookup(cmd.Process.Pid)
	if !ok {
		t.Fatal("a running process is not found")
	}
	oracle, err := procfs.NewProc(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	stat, err := oracle.Stat()
	if err != nil {
		t.Fatal(err)
	}
	exe, err := oracle.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want := Process{PID: cmd.Process.Pid, Comm: stat.Comm, Exe: exe, StartTime: stat.Starttime, Parent: stat.PPID}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}

	cmd.Process.Kill()
	cmd.Wait()
	if p, ok := Lookup(cmd.Process.Pid); ok {
		t.Errorf("an ended process is found: %+v", p)
	}
}

func TestLookupOfLeaderThatEnded(t *testing.T) {
	program := testenv.CompileCText(t, `
		#include <pthread.h>
		#include <stdio.h>
		#include <unistd.h>
		void *rest(void *arg) { sleep(1); puts("leader is gone"); fflush(stdout); sleep(60); return 0; }
		int main(void) { pthread_t t; pthread_create(&t, 0, rest, 0); pthread_exit(0); }
	`, "-pthread")
	cmd := exec.Command(program)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	var line [16]byte
	if _, err := out.Read(line[:]); err != nil {
		t.Fatal(err)
	}
	p, ok := Lookup(cmd.Process.Pid)
	if !ok || p.Exe != program {
		t.Errorf("got %+v, %v; its second thread runs %s", p, ok, program)
	}
}

// ended reports whether a process has released its memory: from then on it has
// neither arguments nor a program, though it is listed until its parent waits.
func ended(p procfs.Proc) bool {
	s, err := p.Stat()
	return err != nil || s.State == "Z" || s.State == "X" || s.VSize == 0
}

func TestListLeavesOutKernelThreads(t *testing.T) {
	ps, err := List()
	if err != nil {
		t.Fatal(err)
	}
	self, last := false, 0
	for _, p := range ps {
		if p.PID <= last {
			t.Errorf("pid %d follows %d", p.PID, last)
		}
		last = p.PID
		self = self || p.PID == os.Getpid()
		if oracle, err := procfs.NewProc(p.PID); err == nil {
			if args, err := oracle.CmdLine(); err == nil && len(args) == 0 && p.Exe == "" && !ended(oracle) {
				t.Errorf("%d (%s) has neither arguments nor a program", p.PID, p.Comm)
			}
		}
	}
	if !self {
		t.Errorf("this process, %d, is not listed", os.Getpid())
	}
}

func TestParseStat(t *testing.T) {
	numbers := "1 2 3 4 5 4194304 101 102 103 104 71 72 73 74 20 0 3 0 12345 8192000 -7 9"
	for _, c := range []struct {
		text, comm string
		ok         bool
	}{
		{"42 (sleep) S " + numbers + "\n", "sleep", true},
		{"42 () S " + numbers, "", true},
		{"42 (a) R (b) S " + numbers, "a) R (b", true},
		{"42 (two\nlines) S " + numbers, "two\nlines", true},
		{"42 (sleep) S 1 2 3", "", false},
		{"42 (sleep", "", false},
		{"42 sleep) S " + numbers, "", false},
		{"(sleep) S " + numbers, "", false},
		{"x (sleep) S " + numbers, "", false},
		{"42 (sleep)", "", false},
		{"42 (sleep) S x" + numbers, "", false},
		{"", "", false},
	} {
		var s Stat
		ok := ParseStat([]byte(c.text), &s)
		if ok != c.ok {
			t.Errorf("%q: ok is %v", c.text, ok)
		}
		if !ok {
			continue
		}
		want := Stat{PID: 42, Comm: s.Comm, State: 'S', Parent: 1, Flags: 4194304, MinorFaults: 101, MajorFaults: 103,
			UserTicks: 71, SystemTicks: 72, Threads: 3, StartTime: 12345, VSize: 8192000, RSS: -7}
		if fmt.Sprint(s) != fmt.Sprint(want) || string(s.Comm) != c.comm {
			t.Errorf("%q:\ngot  %+v\nwant %+v of %q", c.text, s, want, c.comm)
		}
	}
}

func TestParsersTakeAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOf(rapid.SampledFrom([]byte("0f9-:/ ()rxp\n\\\x00Z"))).Draw(t, "text")
		var s Stat
		ParseStat(b, &s)
		for _, m := range parseMaps(b) {
			if m.Start >= m.End || m.Path == "" || m.Inode == 0 {
				t.Fatalf("%q gives %+v", b, m)
			}
		}
	})
}

func BenchmarkLookup(b *testing.B) {
	pid := os.Getpid()
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := Lookup(pid); !ok {
			b.Fatal("not found")
		}
	}
}

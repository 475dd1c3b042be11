package sched

import (
	"os"
	"testing"

	"endoscope/planner/plan"
	"endoscope/probes/bpf"
)

// happened is a record as the kernel writes it; names are the executable's path
// from its last name on, each with its terminator.
func happened(event uint32, pid, parent uint32, names string) life {
	return life{LifeLife: &bpf.LifeLife{Event: event, Pid: pid, ParentPid: parent}, names: []byte(names)}
}

func ofStream(t *testing.T, stream string, target plan.Target) *targets {
	t.Helper()
	w := newTargets(&plan.Acquire{Stream: stream, Target: target})
	if err := w.begin(); err != nil {
		t.Fatal(err)
	}
	return w
}

// Threads end when it is not told any more what their process executes (before
// Linux 6.16): what was seen of the process says whose they are.
func TestEndsOfThreadsByExecutable(t *testing.T) {
	const none, own, other = 1 << 30, 1<<30 + 1, 1<<30 + 2
	w := ofStream(t, ThreadEnd, plan.Target{Exes: []string{"/opt/app"}})
	if w.needs()&processExec == 0 {
		t.Fatal("what processes execute is not looked at")
	}
	steps := []struct {
		what string
		life life
		want bool
	}{
		{"another program begins", happened(processStart, other, none, "sh\x00bin\x00"), false},
		{"the program begins", happened(processStart, own, none, "sh\x00bin\x00"), false},
		{"and is executed", happened(processExec, own, none, "app\x00opt\x00"), true},
		{"its child", happened(processStart, other, own, "app\x00opt\x00"), true},
		{"executes something else", happened(processExec, other, own, "ls\x00bin\x00"), false},
		{"whose thread ends", happened(threadEnd, other, own, ""), false},
		{"a thread of the program ends", happened(threadEnd, own, none, ""), true},
		{"its last one ends", happened(threadEnd|processEnd, own, none, ""), true},
		{"the pid is used again", happened(threadEnd, own, none, ""), false},
	}
	for _, s := range steps {
		if got := w.wants(s.life); got != s.want {
			t.Errorf("%s: %v, want %v", s.what, got, s.want)
		}
	}
}

// When records were lost, the members are looked for again: those that began
// meanwhile are found, and those that are gone are forgotten, but not before their
// end, if that is still to come.
func TestMembersAfterLoss(t *testing.T) {
	const gone = 1 << 30
	self, parent := os.Getpid(), os.Getppid()
	w := ofStream(t, ProcessEnd, plan.Target{PIDs: []int{parent}})
	if !w.family[self] {
		t.Fatal("this process is none of its parent's")
	}
	delete(w.family, self) // its start was lost
	w.family[gone] = true
	if err := w.begin(); err != nil {
		t.Fatal(err)
	}
	if !w.family[self] {
		t.Error("a process whose start was lost is not found")
	}
	if !w.wants(happened(processEnd, gone, uint32(parent), "")) {
		t.Error("the end of a process comes after it is gone, and is not wanted")
	}
	w.family[gone] = true
	for range 2 {
		if err := w.begin(); err != nil {
			t.Fatal(err)
		}
	}
	if w.family[gone] {
		t.Error("a process whose end was lost is a member for ever")
	}
}

package sched

import (
	"os"
	"testing"

	"endoscope/planner/plan"
	"endoscope/probes/bpf"
)

// happened returns a record as the kernel writes it; names are the components
// of the executable's path from the last on, each NUL-terminated.
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

// The ends of threads before Linux 6.16 do not have the executable of their
// process: earlier events of the process decide.
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

// After a loss the members are listed again: new ones are found, and missing
// ones are removed, but not before their end event, if that is still to come.
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

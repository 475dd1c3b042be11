package sched

import (
	"os"
	"os/exec"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/testenv"
)

func observing(t *testing.T, spec *plan.Acquire) (*record, probes.Source) {
	t.Helper()
	src, err := New().Prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	r := newRecord(spec)
	if err := src.Start(t.Context(), r, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = src.Stop() })
	return r, src
}

// An executable is a file: processes that run it by another path match, also if
// they have ended before their record is read.
func TestExecutableByAnotherPath(t *testing.T) {
	testenv.NeedUprobes(t)
	dir := t.TempDir()
	program, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	exe, other := dir+"/program", dir+"/other"
	if err := os.WriteFile(exe, program, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(exe, other); err != nil {
		t.Fatal(err)
	}
	const times = 10
	for _, stream := range []string{ProcessExec, ProcessEnd, ThreadEnd} {
		r, src := observing(t, acquire(stream, plan.Target{Exes: []string{exe}}))
		ran := map[int64]bool{}
		for range times {
			cmd := exec.Command(other)
			if err := cmd.Run(); err != nil {
				t.Fatal(err)
			}
			ran[int64(cmd.Process.Pid)] = true
		}
		if err := src.Stop(); err != nil {
			t.Fatal(err)
		}
		rows := r.wait(t)
		for _, row := range rows {
			if !ran[row["pid"].I] || row["exe"].S != other {
				t.Errorf("%s: process %d, %s", stream, row["pid"].I, row["exe"].S)
			}
		}
		if len(rows) != times {
			t.Errorf("%s: %d rows, want %d", stream, len(rows), times)
		}
	}
}

// A program without a directory entry has a name.
func TestExecutableInMemory(t *testing.T) {
	testenv.NeedUprobes(t)
	program, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.MemfdCreate("program", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	writing := os.NewFile(uintptr(fd), "program")
	defer writing.Close()
	if _, err := writing.Write(program); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	writing.Close() // a file open for writing cannot be executed
	r, src := observing(t, acquire(ProcessExec, plan.Target{}))
	cmd := exec.Command("/proc/self/fd/3")
	cmd.ExtraFiles = []*os.File{f}
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if err := src.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, row := range r.wait(t) {
		if row["pid"].I == int64(cmd.Process.Pid) {
			if got, want := row["exe"].S, "/memfd:program"; got != want {
				t.Errorf("it executes %q, want %q", got, want)
			}
			return
		}
	}
	t.Error("the program was not seen")
}

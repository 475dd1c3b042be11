package uprobe

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/internal/testplan"
)

// changer calls work ten times for each line it reads; at "exec" it executes itself.
const changer = prelude + `
#include <string.h>
#include <unistd.h>
NOINLINE long work(long n) { sink += n; return n; }
int main(int argc, char **argv) {
	char line[64];
	puts("ready"); fflush(stdout);
	while (read(0, line, 3) == 3) {
		if (!strncmp(line, "ex", 2)) execv(argv[0], argv);
		for (long i = 0; i < 10; i++) work(i);
		puts("done"); fflush(stdout);
	}
}
`

const (
	viewerUID = 51234
	otherUID  = 51236
)

// public moves a program to a directory that every user can read.
func public(t *testing.T, program string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "viewer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	to := filepath.Join(dir, "es-changer")
	b, err := os.ReadFile(program)
	for _, err := range []error{err, os.Chmod(dir, 0o755), os.WriteFile(to, b, 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// runAs is run as a given user.
func runAs(t *testing.T, uid uint32, path string) *running {
	t.Helper()
	cmd := exec.Command(path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
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
	r := &running{t: t, cmd: cmd, in: in, out: bufio.NewScanner(out)}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	r.awaitReady()
	return r
}

// work makes the target call work ten times.
func (r *running) work() {
	r.t.Helper()
	r.step()
	if line := r.line(); line != "done" {
		r.t.Fatalf("target said %q", line)
	}
}

func viewer(shared bool) *plan.Viewer {
	return &plan.Viewer{Local: true, UID: viewerUID, GIDs: []uint32{viewerUID}, Shared: shared}
}

// A user who may attach probes for all processes of a file sees only the events of those
// they may observe, including processes that start later.
func TestViewerSeesTheirOwn(t *testing.T) {
	testenv.NeedUprobes(t)
	target := public(t, testenv.CompileCText(t, changer, "-O1"))
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		mine, roots := runAs(t, viewerUID, target), runAs(t, 0, target)
		src, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, plan.Target{Exes: []string{target}, Viewer: viewer(true)}, testplan.Named("work"), "pid"))
		later, others := runAs(t, viewerUID, target), runAs(t, otherUID, target)
		for _, r := range []*running{mine, roots, later, others} {
			r.work()
		}
		if err := src.Stop(); err != nil {
			t.Fatal(err)
		}
		want := map[int64]int{int64(mine.cmd.Process.Pid): 10, int64(later.cmd.Process.Pid): 10}
		if diff := cmp.Diff(want, tally(got.wait(t).ints("pid"))); diff != "" {
			t.Error(diff)
		}
	})
}

// A process that executes a set-user-ID program is not visible any more, although it is
// the same process and has the same probes.
func TestViewerLosesSetUserID(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared=%t", shared), func(t *testing.T) {
			target := public(t, testenv.CompileCText(t, changer, "-O1"))
			p := provider(t, Options{})
			r := runAs(t, viewerUID, target)
			spec := testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("work"), "pid")
			spec.Target.Viewer = viewer(shared)
			src, got := start(t, p, spec)
			r.work()
			if err := os.Chmod(target, os.ModeSetuid|0o755); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(r.in, "ex")
			r.awaitReady()
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.cmd.Process.Pid))
			if err != nil || !strings.Contains(string(status), fmt.Sprintf("Uid:\t%d\t0\t0\t0", viewerUID)) {
				t.Fatalf("the target did not become another user's: %v", err)
			}
			r.work()
			if err := src.Stop(); err != nil {
				t.Fatal(err)
			}
			if n := len(got.wait(t).rows); n != 10 {
				t.Errorf("%d events, want the 10 of the time before", n)
			}
		})
	}
}

// Without the grant each link is restricted to one process: others that execute the same
// file do not run the program at all, and have no return traps.
func TestPrivateProbes(t *testing.T) {
	testenv.NeedUprobes(t)
	needFeature(t, attach.FeatureProcess)
	target := public(t, testenv.CompileCText(t, changer, "-O1"))
	p := provider(t, Options{})
	mine, others := runAs(t, viewerUID, target), runAs(t, otherUID, target)
	spec := testplan.Acquire(catalog.FunctionDuration, mine.target(), testplan.Named("work"), "pid")
	spec.Target.Viewer = viewer(false)
	src, got := start(t, p, spec)
	for _, w := range src.(*source).resolution.Functions {
		if w.Scope.PID != mine.cmd.Process.Pid || w.Returns == calls.Trapped {
			t.Errorf("a probe of process %d, with return trap: %t", w.Scope.PID, w.Returns == calls.Trapped)
		}
	}
	mine.work()
	others.work()
	if err := src.Stop(); err != nil {
		t.Fatal(err)
	}
	if n := len(got.wait(t).rows); n != 10 {
		t.Errorf("%d calls, want 10", n)
	}

	for _, c := range []struct {
		target   plan.Target
		settings plan.Settings
		want     string
	}{
		{plan.Target{Exes: []string{target}}, plan.Settings{}, `probes for whatever process bears a name need the grant "shared"`},
		{mine.target(), plan.Settings{Returns: plan.TrapReturns}, `return traps are set in every process that executes the file, which needs the grant "shared"`},
		{mine.target(), plan.Settings{ProbeLinks: "perf"}, `probes cannot be restricted to one process on this kernel, and others need the grant "shared"`},
		{others.target(), plan.Settings{}, fmt.Sprintf("there is no process %d", others.cmd.Process.Pid)},
	} {
		spec := testplan.Acquire(catalog.FunctionDuration, c.target, testplan.Named("work"), "pid")
		spec.Target.Viewer, spec.Settings = viewer(false), c.settings
		if _, err := p.Prepare(context.Background(), spec); err == nil || err.(*plan.Error).Msg != c.want {
			t.Errorf("%+v: %v, want %s", c.settings, err, c.want)
		}
	}
}

// A cgroup is granted including its descendants.
func TestViewerOfCgroup(t *testing.T) {
	testenv.NeedUprobes(t)
	root := t.TempDir()
	if err := syscall.Mount("none", root, "cgroup2", 0, ""); err != nil {
		testenv.Skip(t, "needs cgroups: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(root, syscall.MNT_DETACH) })
	inside := filepath.Join(root, "es-granted", "below")
	if err := os.MkdirAll(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		testenv.UntilNil(t, "the group is empty and removed", func() error { return os.Remove(inside) })
		os.Remove(filepath.Dir(inside))
	})
	target := public(t, testenv.CompileCText(t, changer, "-O1"))
	p := provider(t, Options{})
	granted, other := runAs(t, otherUID, target), runAs(t, otherUID, target)
	if err := os.WriteFile(filepath.Join(inside, "cgroup.procs"), fmt.Appendln(nil, granted.cmd.Process.Pid), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { granted.cmd.Process.Kill(); granted.cmd.Wait() })
	v := &plan.Viewer{Cgroups: []string{"es-granted"}, Shared: true}
	src, got := start(t, p, testplan.Acquire(catalog.FunctionStart, plan.Target{Processes: []string{"es-changer"}, Viewer: v}, testplan.Named("work"), "pid"))
	granted.work()
	other.work()
	if err := src.Stop(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[int64]int{int64(granted.cmd.Process.Pid): 10}, tally(got.wait(t).ints("pid"))); diff != "" {
		t.Error(diff)
	}
}

package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"endoscope/planner/plan"
	"endoscope/probes/testenv"
)

// publicCopy copies a program to a place that every user can read.
func publicCopy(t testing.TB, program string, mode os.FileMode) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "viewer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(dir, filepath.Base(program))
	for _, err := range []error{os.Chmod(dir, 0o755), os.WriteFile(to, b, 0o755), os.Chmod(to, mode)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// startAs runs sleep(1) as a user, and waits until it sleeps.
func startAs(t testing.TB, attr *syscall.SysProcAttr, program string, args ...string) int {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.SysProcAttr = attr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	testenv.AwaitSleep(t, cmd.Process.Pid)
	return cmd.Process.Pid
}

func as(uid, gid uint32, groups ...uint32) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid, Groups: groups}}
}

// kernelAllows returns whether a user could ptrace a process: reading environ
// requires the same rights (PTRACE_MODE_READ).
func kernelAllows(t testing.TB, uid, gid uint32, pid int) bool {
	t.Helper()
	cmd := exec.Command(testenv.NeedProgram(t, "cat"), fmt.Sprintf("/proc/%d/environ", pid))
	cmd.SysProcAttr = as(uid, gid)
	return cmd.Run() == nil
}

// TestVisibleAgreesWithTheKernel compares with the kernel's own answer.
func TestVisibleAgreesWithTheKernel(t *testing.T) {
	testenv.NeedRoot(t)
	sleep := testenv.NeedProgram(t, "sleep")
	const user, group, other = 51234, 51235, 51236
	suid := publicCopy(t, sleep, os.ModeSetuid|0o755)
	if err := os.Chown(filepath.Dir(suid), 0, 0); err != nil {
		t.Fatal(err)
	}
	sgid := publicCopy(t, sleep, 0o755)
	if err := os.Chown(sgid, 0, other); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(sgid, os.ModeSetgid|0o755); err != nil {
		t.Fatal(err)
	}
	unreadable := publicCopy(t, sleep, 0o711)
	namespace := as(user, group)
	namespace.Cloneflags = syscall.CLONE_NEWUSER
	namespace.UidMappings = []syscall.SysProcIDMap{{ContainerID: user, HostID: user, Size: 1}}
	namespace.GidMappings = []syscall.SysProcIDMap{{ContainerID: group, HostID: group, Size: 1}}
	namespace.Credential.NoSetGroups = true
	capable := as(user, group)
	capable.AmbientCaps = []uintptr{10} // CAP_NET_BIND_SERVICE
	mine := plan.Viewer{Local: true, UID: user, GIDs: []uint32{group}}
	for _, c := range []struct {
		name     string
		attr     *syscall.SysProcAttr
		program  string
		visible  bool
		stricter bool // than the kernel is
	}{
		{"their own", as(user, group), sleep, true, false},
		{"with another group of theirs", as(user, group, other), sleep, true, false},
		{"another user's", as(other, group), sleep, false, false},
		{"root's", as(0, 0), sleep, false, false},
		{"another group's", as(user, other), sleep, false, false},
		{"set-user-ID", as(user, group), suid, false, false},
		{"set-group-ID", as(user, group), sgid, false, false},
		{"of a file that cannot be read", as(user, group), unreadable, false, false},
		{"with capabilities", capable, sleep, false, false},
		{"in a namespace of users", namespace, sleep, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			pid := startAs(t, c.attr, c.program, "60")
			if got := Visible(&mine, pid); got != c.visible {
				t.Errorf("visible: %t, want %t", got, c.visible)
			}
			if kernel := kernelAllows(t, user, group, pid); kernel != c.visible && !(kernel && c.stricter) {
				t.Errorf("the kernel says %t", kernel)
			}
			for who, v := range map[string]*plan.Viewer{"nobody in particular": {}, "a stranger": {Local: true, UID: 51239, GIDs: []uint32{group}}} {
				if Visible(v, pid) {
					t.Errorf("visible to %s", who)
				}
			}
			for who, v := range map[string]*plan.Viewer{"the engine": nil, "who may see any": {Any: true}} {
				if !Visible(v, pid) {
					t.Errorf("not visible to %s", who)
				}
			}
			granted := plan.Viewer{Users: []uint32{c.attr.Credential.Uid}}
			if want := c.name != "set-user-ID" && !c.stricter; Visible(&granted, pid) != want {
				t.Errorf("visible by the grant of its user: %t", !want)
			}
		})
	}
}

// A hidden process is refused with the same message as a missing one.
func TestResolveTellsNothingOfTheHidden(t *testing.T) {
	testenv.NeedRoot(t)
	secret := publicCopy(t, testenv.NeedProgram(t, "sleep"), 0o755)
	pid := startAs(t, nil, secret, "60")
	v := &plan.Viewer{Local: true, UID: 51234, GIDs: []uint32{51234}}
	const none = 1 << 22 // pid_max is at most that
	refusal := func(target plan.Target) string {
		target.Viewer = v
		_, err := Resolve(target)
		if err == nil {
			t.Fatalf("%v is resolved", target)
		}
		e := err.(*plan.Error)
		return e.Msg + "\n" + e.Hint
	}
	if got, want := refusal(plan.Target{PIDs: []int{pid}}), refusal(plan.Target{PIDs: []int{none}}); got != replaceNumber(want, none, pid) {
		t.Errorf("by pid: %q, and where there is none %q", got, want)
	}
	if got := refusal(plan.Target{PIDs: []int{2}}); got != replaceNumber(refusal(plan.Target{PIDs: []int{none}}), none, 2) {
		t.Errorf("a kernel thread: %q", got)
	}
	if got := refusal(plan.Target{Processes: []string{"sleeq"}}); got != "no process is named 'sleeq'\nSHOW PROCESSES lists those that you may observe" {
		t.Errorf("by name: %q", got)
	}
	if got := refusal(plan.Target{Exes: []string{secret}}); got != "no process executes "+secret+"\nSHOW PROCESSES lists those that you may observe" {
		t.Errorf("by file: %q", got)
	}
	if got := refusal(plan.Target{Exes: []string{"/nowhere"}}); got != "no process executes /nowhere\nSHOW PROCESSES lists those that you may observe" {
		t.Errorf("by a file that is not there: %q", got)
	}
}

func replaceNumber(s string, old, with int) string {
	var a, b int
	if _, err := fmt.Sscanf(s, "there is no process %d", &a); err != nil || a != old {
		return s
	}
	b = with
	return fmt.Sprintf("there is no process %d", b) + s[len(fmt.Sprintf("there is no process %d", a)):]
}

func TestWithinCgroup(t *testing.T) {
	for _, c := range []struct {
		path, folder string
		want         bool
	}{
		{"/system.slice/a.service", "/system.slice", true},
		{"/system.slice/a.service", "system.slice/a.service/", true},
		{"/system.slice-2/a", "/system.slice", false},
		{"/", "/system.slice", false},
		{"/anything", "/", false}, // granted for another reason
	} {
		if got := isWithin(c.path, c.folder); got != c.want {
			t.Errorf("%s within %s: %t", c.path, c.folder, got)
		}
	}
}

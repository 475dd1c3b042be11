package variable

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"endoscope/probes/testenv"
)

const signalled = `
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
static volatile int user, trap;
static void on(int s) { if (s == SIGTRAP) trap++; else user++; }
static void *nothing(void *p) { return p; }
int main(void) {
	signal(SIGUSR1, on);
	signal(SIGTRAP, on);
	char b[64];
	while (fgets(b, sizeof b, stdin)) {
		siginfo_t lost = {.si_signo = SIGTRAP, .si_code = TRAP_BRKPT};
		pthread_t t;
		switch (*b) {
		case '1': __asm__ volatile(".byte 0xf1"); break; /* INT1 */
		case '3': __asm__ volatile("int3"); break;
		case 'r': raise(SIGTRAP); break;
		case 'l': syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGTRAP, &lost); break;
		case 'u': for (int i = 0; i < 200; i++) kill(getpid(), SIGUSR1); break;
		case 't': for (int i = 0; i < 200; i++) { pthread_create(&t, 0, nothing, 0); pthread_join(t, 0); } break;
		case 'x': return 7;
		}
		printf("%d %d\n", user, trap);
		fflush(stdout);
	}
}
`

// A guard takes only the signal of a report that was lost. All others arrive, threads come and go,
// a program can be stopped, and its parent learns how it has ended.
func TestGuard(t *testing.T) {
	testenv.NeedRoot(t)
	testenv.NeedProgram(t, "gdb")
	path := testenv.CompileCText(t, signalled, "-O1", "-pthread")
	c := exec.Command(path)
	in, _ := c.StdinPipe()
	out, _ := c.StdoutPipe()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill() }()
	pid, lines := c.Process.Pid, bufio.NewScanner(out)
	tell := func(what, want string) {
		t.Helper()
		fmt.Fprintln(in, what)
		if lines.Scan(); lines.Text() != want {
			t.Errorf("%s: %q, want %q", what, lines.Text(), want)
		}
	}
	field := func(name string) string {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, after, _ := strings.Cut(string(text), "\n"+name+":\t")
		line, _, _ := strings.Cut(after, "\n")
		return line
	}
	tell("nothing", "0 0")
	g, err := guardOf(pid)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := guardOf(pid); err != nil || again != g {
		t.Errorf("for another query: %v", err)
	}
	g.release()
	tell("u", "200 0")
	tell("1", "200 1")
	tell("3", "200 2")
	tell("r", "200 3")
	tell("l", "200 3")
	tell("t", "200 3")
	if n := g.lost.Load(); n != 1 {
		t.Errorf("%d signals were taken", n)
	}
	testenv.Until(t, "its threads are gone", func() bool { return field("Threads") == "1" })
	_ = unix.Kill(pid, unix.SIGSTOP)
	testenv.Until(t, "it is stopped", func() bool { return strings.HasPrefix(field("State"), "t") || strings.HasPrefix(field("State"), "T") })
	fmt.Fprintln(in, "r")
	_ = unix.Kill(pid, unix.SIGCONT)
	if lines.Scan(); lines.Text() != "200 4" {
		t.Errorf("after it was stopped: %q", lines.Text())
	}
	g.release()
	<-g.ended
	testenv.Until(t, "nothing traces it", func() bool { return field("TracerPid") == "0" })
	tell("l", "200 5")
	other := exec.Command("gdb", "-q", "-batch", "-p", fmt.Sprint(pid), "-ex", "shell sleep 1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "gdb traces it", func() bool { return field("TracerPid") == fmt.Sprint(other.Process.Pid) })
	if _, err := guardOf(pid); err == nil {
		t.Error("a process that gdb traces has a guard")
	}
	_ = other.Process.Kill()
	_ = other.Wait()
	testenv.Until(t, "nothing traces it", func() bool { return field("TracerPid") == "0" })
	if g, err = guardOf(pid); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(in, "x")
	if err := c.Wait(); c.ProcessState.ExitCode() != 7 {
		t.Errorf("its end: %v", err)
	}
	<-g.ended
}

// The parent of a program learns of its end, and the guard collects nothing that is another's.
func TestGuardOfAnotherParent(t *testing.T) {
	testenv.NeedRoot(t)
	c := exec.Command("sh", "-c", "sleep 1000 & echo $!; wait $!; echo $?")
	out, _ := c.StdoutPipe()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	lines := bufio.NewScanner(out)
	lines.Scan()
	var pid int
	fmt.Sscan(lines.Text(), &pid)
	testenv.AwaitSleep(t, pid)
	g, err := guardOf(pid)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Kill(pid, unix.SIGTERM)
	if lines.Scan(); lines.Text() != "143" {
		t.Errorf("its parent says %q", lines.Text())
	}
	<-g.ended
}

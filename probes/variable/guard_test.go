package variable

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"endoscope/probes/debugregister"
	"endoscope/probes/process"
	"endoscope/probes/testenv"
)

const signalled = `
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
long value;
static volatile int user, trap;
static void on(int s) { __sync_fetch_and_add(&user, 1); }
static void trapped(int s, siginfo_t *info, void *context) {
	greg_t *pc = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	if (*(unsigned char *)*pc == 0xf1) /* a virtual machine may not have advanced it */
		++*pc;
	__sync_fetch_and_add(&trap, 1);
}
static void *nothing(void *p) { return p; }
static void *often(void *p) { for (int i = 0; i < 500; i++) syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1); return p; }
int main(void) {
	signal(SIGUSR1, on);
	struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO | SA_RESTART};
	sigaction(SIGTRAP, &action, 0);
	char b[64];
	puts("ready");
	fflush(stdout);
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
		case 'k': {
			pthread_t all[8];
			for (int i = 0; i < 8; i++) pthread_create(&all[i], 0, often, 0);
			for (int i = 0; i < 8; i++) pthread_join(all[i], 0);
			break;
		}
		case 'e': pthread_create(&t, 0, often, 0); execl("/proc/self/exe", "again", (char *)0); break;
		case 'x': pthread_create(&t, 0, often, 0); return 7;
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
	tell("nothing", "ready")
	lines.Scan()
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
	tell("k", "4200 3")
	if n := g.lost.Load(); n != 1 {
		t.Errorf("%d signals were taken", n)
	}
	testenv.Until(t, "its threads are gone", func() bool { return field("Threads") == "1" })
	_ = unix.Kill(pid, unix.SIGSTOP)
	testenv.Until(t, "it is stopped", func() bool { return strings.HasPrefix(field("State"), "t") || strings.HasPrefix(field("State"), "T") })
	fmt.Fprintln(in, "r")
	_ = unix.Kill(pid, unix.SIGCONT)
	if lines.Scan(); lines.Text() != "4200 4" {
		t.Errorf("after it was stopped: %q", lines.Text())
	}
	g.release()
	<-g.ended
	testenv.Until(t, "nothing traces it", func() bool { return field("TracerPid") == "0" })
	tell("l", "4200 5")
	other := exec.Command("gdb", "-q", "-batch", "-p", fmt.Sprint(pid), "-ex", "shell sleep 1000")
	other.SysProcAttr = &unix.SysProcAttr{Setpgid: true} // its shell ends with it
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "gdb traces it", func() bool { return field("TracerPid") == fmt.Sprint(other.Process.Pid) })
	if _, err := guardOf(pid); err == nil {
		t.Error("a process that gdb traces has a guard")
	}
	_ = unix.Kill(-other.Process.Pid, unix.SIGKILL)
	_ = other.Wait()
	testenv.Until(t, "nothing traces it", func() bool { return field("TracerPid") == "0" })
	_ = unix.Kill(pid, unix.SIGCONT) // gdb may have been killed while it stopped it
	if g, err = guardOf(pid); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		tell("e", "ready")
		tell("k", "4000 0") // it counts from 0 again
	}
	fmt.Fprintln(in, "x")
	<-g.ended // else waiting would take its stops
	if err := c.Wait(); c.ProcessState.ExitCode() != 7 {
		t.Errorf("its end: %v", err)
	}
}

// A program that this process has launched gets its signals, and its end is known.
func TestGuardOfLaunched(t *testing.T) {
	testenv.NeedRoot(t)
	stdin, in, _ := os.Pipe()
	out, stdout, _ := os.Pipe()
	c, err := process.Launch([]string{testenv.CompileCText(t, signalled, "-O1", "-g", "-pthread")}, stdin, stdout, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.End(); in.Close(); out.Close() }()
	stdin.Close()
	stdout.Close()
	if err := c.Release(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	tell := func(what, want string) {
		t.Helper()
		fmt.Fprintln(in, what)
		if lines.Scan(); lines.Text() != want {
			t.Errorf("%s: %q, want %q", what, lines.Text(), want)
		}
	}
	tell("nothing", "ready")
	lines.Scan()
	var g *guard
	testenv.UntilNil(t, "its launcher lets go", func() (err error) { g, err = guardOf(c.PID()); return err })
	tell("u", "200 0")
	tell("t", "200 0")
	tell("k", "4200 0")
	tell("l", "4200 0")
	taken := uint64(1)
	if debugregister.Virtual() { // a query guards what it watches, and counts
		got, stop := observe(t, asked(c.PID(), 0, "value"))
		got.normal = []string{withheld}
		tell("l", "4200 0")
		taken++
		testenv.Until(t, "the query has counted the signal", func() bool {
			got.mu.Lock()
			defer got.mu.Unlock()
			return got.lost[withheld] == 1
		})
		stop()
	}
	fmt.Fprintln(in, "x")
	<-c.Wait()
	if c.ExitCode() != 7 || g.lost.Load() != taken {
		t.Errorf("exit code %d, and %d signals were taken", c.ExitCode(), g.lost.Load())
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

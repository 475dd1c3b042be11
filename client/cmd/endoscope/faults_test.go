package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"endoscope/probes/testenv"
)

// ticking calls work a thousand times per second.
const ticking = `#include <unistd.h>
__attribute__((noinline)) int work(int i) { __asm__ volatile(""); return i + 1; }
int main(void) { volatile int s = 0; for (;;) { s = work(s); usleep(1000); } }`

// ours is a running process started by the test.
type ours struct {
	t   testing.TB
	cmd *exec.Cmd
	out testenv.Buffer
}

// launch runs a program until the test ends.
func launch(t testing.TB, name string, args ...string) *ours {
	t.Helper()
	testenv.Interruptible(t)
	p := &ours{t: t, cmd: exec.Command(name, args...)}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

// says waits until a program has printed a text.
func (p *ours) says(what string) {
	p.t.Helper()
	testenv.UntilNil(p.t, fmt.Sprintf("it says %q", what), func() error {
		if text := p.out.String(); !strings.Contains(text, what) {
			return errors.New(text)
		}
		return nil
	})
}

// reportsGaps waits until a reconnecting client has reported as lost each connection
// that it has replaced: one, or more if it had no processor for longer than its time
// limit.
func (p *ours) reportsGaps() {
	p.t.Helper()
	testenv.UntilNil(p.t, "it reports its gaps", func() error {
		text := p.out.String()
		n := strings.Count(text, "; reconnected: ")
		if n == 0 || strings.Count(text, "gap: no data for ") != n || !strings.Contains(text, fmt.Sprintf("lost %d (connection lost %[1]d)", n)) {
			return errors.New(text)
		}
		return nil
	})
}

// daemonDir is the folder of the daemon's main package.
const daemonDir = "../../../server/cmd/endoscoped"

// holds waits until a process holds links in the kernel, or none.
func (p *ours) holds(some bool) (took time.Duration) {
	p.t.Helper()
	what := "it holds no links"
	if some {
		what = "it holds links"
	}
	return testenv.Until(p.t, what, func() bool {
		worker := p.worker() // 0 while it is restarted
		_, links := attached(p.t, worker)
		return worker != 0 && some == (len(links) > 0)
	})
}

// attached returns the programs and links that a daemon holds.
func (p *ours) attached() (programs, links []uint32) {
	return attached(p.t, p.worker())
}

// worker returns the process of a daemon that executes statements: the child of the one
// that was started. It is 0 between two of them.
func (p *ours) worker() int {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, list := range lists {
		text, _ := os.ReadFile(list) // the thread may have ended
		if pids := strings.Fields(string(text)); len(pids) > 0 {
			pid, err := strconv.Atoi(pids[0])
			if err != nil {
				p.t.Fatal(err)
			}
			return pid
		}
	}
	return 0
}

// kill kills a daemon with its worker, as a machine that fails does.
func (p *ours) kill() {
	p.t.Helper()
	worker := p.worker()
	// A worker whose supervisor has died ends in order, unless it is stopped.
	for _, of := range []struct {
		pid    int
		signal syscall.Signal
	}{{worker, syscall.SIGSTOP}, {p.cmd.Process.Pid, syscall.SIGKILL}, {worker, syscall.SIGKILL}} {
		if err := syscall.Kill(of.pid, of.signal); err != nil {
			p.t.Fatal(err)
		}
	}
}

// binaries are the two programs and a target.
type binaries struct{ endoscope, endoscoped, ticking string }

// TestFaults tests failures of clients, servers and the network between them.
func TestFaults(t *testing.T) {
	testenv.NeedUprobes(t)
	b := binaries{testenv.Command(t, "."), testenv.Command(t, daemonDir), testenv.CompileCText(t, ticking, "-O1")}
	t.Run("clients that go", b.clientsDisconnect)
	t.Run("a client that freezes in the middle of rows", b.stoppedWhileSending)
	t.Run("a server that dies", b.serverDies)
	t.Run("two machines", b.twoMachines)
	t.Run("a crowd", b.crowd)
}

// However a client ends, its probes are removed: immediately if the connection is
// closed, after the timeout if the client is silent.
func (b binaries) clientsDisconnect(t *testing.T) {
	target := launch(t, b.ticking)
	socket := filepath.Join(t.TempDir(), "s")
	patient := launch(t, b.endoscoped, "--unix", socket, "--config", t.TempDir(), "--client-timeout", "1h")
	hasty := launch(t, b.endoscoped, "--unix", socket+"2", "--config", t.TempDir(), "--client-timeout", "20s")
	patient.says("listening")
	hasty.says("listening")
	for _, c := range []struct {
		name   string
		signal syscall.Signal
		d      *ours // patient: only the end of the connection can end the query
		socket string
	}{
		{"interrupted", syscall.SIGINT, patient, socket},
		{"terminated", syscall.SIGTERM, patient, socket},
		{"killed", syscall.SIGKILL, patient, socket},
		{"frozen", syscall.SIGSTOP, hasty, socket + "2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := launch(t, b.endoscope, "--connect", c.socket, "-c",
				fmt.Sprintf("SELECT COUNT(*) FROM function_start WHERE pid = %d AND function_name = 'work'", target.cmd.Process.Pid))
			c.d.holds(true)
			if err := client.cmd.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			took := c.d.holds(false)
			t.Logf("its probes are gone after %v", took.Round(time.Millisecond))
		})
	}
}

// A frozen client whose connection is full of rows counts as silent too.
func (b binaries) stoppedWhileSending(t *testing.T) {
	busy := strings.Replace(ticking, "usleep(1000);", "", 1)
	target := launch(t, testenv.CompileCText(t, busy, "-O1"))
	socket := filepath.Join(t.TempDir(), "s")
	d := launch(t, b.endoscoped, "--unix", socket, "--config", t.TempDir(), "--client-timeout", "20s")
	d.says("listening")
	// Only the client's silence ends the query, not the cost of its probes.
	client := exec.Command(b.endoscope, "--connect", socket, "--format", "csv", "-c",
		fmt.Sprintf("SET max_overhead = 0; SELECT timestamp, pid, tid FROM function_start WHERE pid = %d AND function_name = 'work'", target.cmd.Process.Pid))
	out, err := client.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Process.Signal(syscall.SIGCONT); client.Process.Kill(); client.Wait() })
	if _, err := io.CopyN(io.Discard, out, 1<<20); err != nil { // stop reading: the client waits for its reader
		t.Fatal(err)
	}
	// How many bytes fill a pipe depends on the sizes of the writes: the kernel says
	// whether there is room.
	writer, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", out.(*os.File).Fd()), os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	testenv.Until(t, "the pipe to its reader is full", func() bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(writer.Fd()), Events: unix.POLLOUT}}, 0)
		return err == nil && n == 0
	})
	if err := client.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	took := d.holds(false)
	t.Logf("its probes are gone after %v", took.Round(time.Millisecond))
}

// When a server dies, its clients report it and nothing stays attached. A
// reconnecting client continues with the next server and reports what is missing.
func (b binaries) serverDies(t *testing.T) {
	target := launch(t, b.ticking)
	socket := filepath.Join(t.TempDir(), "s")
	serve := func() *ours {
		d := launch(t, b.endoscoped, "--unix", socket, "--config", t.TempDir(), "--client-timeout", "5m")
		d.says("listening")
		return d
	}
	d := serve()
	query := "SELECT timestamp FROM function_start WHERE function_name = 'work'"
	use := fmt.Sprintf("USE PID %d;", target.cmd.Process.Pid)
	client := launch(t, b.endoscope, "--connect", socket, "--format", "csv", "-c", use+query)
	lasting := launch(t, b.endoscope, "--connect", socket, "--reconnect", "--format", "csv", "-c", use+query)
	client.says("Z\n")
	lasting.says("Z\n")
	programs, links := d.attached()
	d.kill()
	gone(t, programs, links)
	client.says("no connection to the engine at " + socket)
	if err := client.cmd.Wait(); err == nil || client.cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("it ended with %v", err)
	}

	time.Sleep(300 * time.Millisecond) // a period without a server
	d = serve()
	lasting.says("reconnected: ")
	d.holds(true)
	n := len(lasting.out.String())
	testenv.Until(t, "there are rows after it", func() bool { return len(lasting.out.String()) >= n+1000 })
	if err := lasting.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	lasting.reportsGaps()
	if n := strings.Count(lasting.out.String(), "timestamp\n"); n != 1 {
		t.Errorf("it has %d headers", n)
	}
}

func command(name string, args ...string) *exec.Cmd { return exec.Command(name, args...) }

// startPiped starts a program that waits until the returned function is called. The
// process is reaped when it ends, since a zombie would look alive to a caller that
// waits for its end.
func (p *ours) startPiped() (begin func()) {
	p.t.Helper()
	in, err := p.cmd.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = p.cmd.Wait()
		close(ended)
	}()
	p.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-ended
	})
	return func() {
		if _, err := in.Write([]byte{'\n'}); err != nil {
			p.t.Fatal(err)
		}
	}
}

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"endoscope/probes/testenv"
)

// ticking calls work a thousand times a second.
const ticking = `#include <unistd.h>
__attribute__((noinline)) int work(int i) { __asm__ volatile(""); return i + 1; }
int main(void) { volatile int s = 0; for (;;) { s = work(s); usleep(1000); } }`

// ours is one of ours that runs.
type ours struct {
	t   testing.TB
	cmd *exec.Cmd
	out output
}

// output collects what a program prints.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// launch runs a program until the test ends.
func launch(t testing.TB, name string, args ...string) *ours {
	t.Helper()
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

// says waits until a program has printed something.
func (p *ours) says(what string, within time.Duration) {
	p.t.Helper()
	for deadline := time.Now().Add(within); !strings.Contains(p.out.String(), what); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("it does not say %q within %v:\n%s", what, within, p.out.String())
		}
	}
}

// buildDaemon compiles the daemon and returns its path.
func buildDaemon(t testing.TB) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "endoscoped")
	if msg, err := exec.Command("go", "build", "-o", out, "../../../server/cmd/endoscoped").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, msg)
	}
	return out
}

// holds waits until a process has links in the kernel, or none.
func (p *ours) holds(some bool, within time.Duration) (took time.Duration) {
	p.t.Helper()
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		_, links := attached(p.t, p.cmd.Process.Pid)
		if some == (len(links) > 0) {
			return time.Since(start)
		}
		if time.Since(start) > within {
			p.t.Fatalf("after %v it holds %d links:\n%s", within, len(links), p.out.String())
		}
	}
}

// binaries are the two programs, and a target.
type binaries struct{ endoscope, endoscoped, ticking string }

// TestFaults has clients, servers and the network between them fail.
func TestFaults(t *testing.T) {
	testenv.NeedUprobes(t)
	b := binaries{build(t), buildDaemon(t), testenv.CompileCText(t, ticking, "-O1")}
	t.Run("clients that go", b.clientsThatGo)
	t.Run("a client that freezes in the middle of rows", b.frozenInTheMiddleOfRows)
	t.Run("a server that dies", b.serverDies)
	t.Run("a wire that is cut", b.wireIsCut)
	t.Run("a crowd", b.crowd)
}

// Whatever becomes of a client, its probes go: at once where the connection is
// closed, after the time for it where the client is silent.
func (b binaries) clientsThatGo(t *testing.T) {
	target := launch(t, b.ticking)
	socket := filepath.Join(t.TempDir(), "s")
	const silence = 2 * time.Second
	d := launch(t, b.endoscoped, "--unix", socket, "--config", t.TempDir(), "--client-timeout", silence.String())
	d.says("listening", 5*time.Second)
	for _, c := range []struct {
		name   string
		signal syscall.Signal
		within time.Duration
	}{
		{"interrupted", syscall.SIGINT, 2 * time.Second},
		{"terminated", syscall.SIGTERM, 2 * time.Second},
		{"killed", syscall.SIGKILL, 2 * time.Second},
		{"frozen", syscall.SIGSTOP, silence + 2*time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := launch(t, b.endoscope, "--connect", socket, "-c",
				fmt.Sprintf("SELECT COUNT(*) FROM function_start WHERE pid = %d AND function_name = 'work'", target.cmd.Process.Pid))
			d.holds(true, 5*time.Second)
			if err := client.cmd.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			took := d.holds(false, c.within)
			t.Logf("its probes are gone after %v", took.Round(time.Millisecond))
		})
	}
}

// A frozen client whose connection is full of rows is silent, too.
func (b binaries) frozenInTheMiddleOfRows(t *testing.T) {
	busy := strings.Replace(ticking, "usleep(1000);", "", 1)
	target := launch(t, testenv.CompileCText(t, busy, "-O1"))
	socket := filepath.Join(t.TempDir(), "s")
	d := launch(t, b.endoscoped, "--unix", socket, "--config", t.TempDir(), "--client-timeout", "2s")
	d.says("listening", 5*time.Second)
	client := exec.Command(b.endoscope, "--connect", socket, "--format", "csv", "-c",
		fmt.Sprintf("SELECT timestamp, pid, tid FROM function_start WHERE pid = %d AND function_name = 'work'", target.cmd.Process.Pid))
	out, err := client.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Process.Signal(syscall.SIGCONT); client.Process.Kill(); client.Wait() })
	if _, err := io.CopyN(io.Discard, out, 1<<20); err != nil { // and no more: it waits for its reader
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond)
	if err := client.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	took := d.holds(false, 4*time.Second)
	t.Logf("its probes are gone after %v", took.Round(time.Millisecond))
}

// A server that dies is told of, and nothing of it stays. Who asked for it goes on
// with the next one, and says what is missing.
func (b binaries) serverDies(t *testing.T) {
	target := launch(t, b.ticking)
	socket := filepath.Join(t.TempDir(), "s")
	serve := func() *ours {
		d := launch(t, b.endoscoped, "--unix", socket, "--config", t.TempDir())
		d.says("listening", 5*time.Second)
		return d
	}
	d := serve()
	query := "SELECT timestamp FROM function_start WHERE function_name = 'work'"
	use := fmt.Sprintf("USE PID %d;", target.cmd.Process.Pid)
	client := launch(t, b.endoscope, "--connect", socket, "--format", "csv", "-c", use+query)
	lasting := launch(t, b.endoscope, "--connect", socket, "--reconnect", "--format", "csv", "-c", use+query)
	client.says("Z\n", 5*time.Second)
	lasting.says("Z\n", 5*time.Second)
	programs, links := attached(t, d.cmd.Process.Pid)
	if err := d.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	gone(t, programs, links)
	client.says("no connection to the engine at "+socket, 2*time.Second)
	if err := client.cmd.Wait(); err == nil || client.cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("it ended with %v", err)
	}

	time.Sleep(300 * time.Millisecond)
	d = serve()
	lasting.says("connected again: ", 10*time.Second)
	d.holds(true, 5*time.Second)
	n := len(lasting.out.String())
	for deadline := time.Now().Add(5 * time.Second); len(lasting.out.String()) < n+1000; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no rows after it: %s", lasting.out.String()[n:])
		}
	}
	if err := lasting.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	lasting.says("lost 1 (connection lost 1)", 5*time.Second)
	lasting.says("gap: nothing is known of ", time.Second)
	if n := strings.Count(lasting.out.String(), "timestamp\n"); n != 1 {
		t.Errorf("it has %d headers", n)
	}
}

// network is a server's and a client's machine: two network namespaces, and a
// wire between them.
type network struct {
	t              testing.TB
	server, client string // namespaces
	addr           string // of the server's end
}

func newNetwork(t testing.TB) *network {
	t.Helper()
	testenv.NeedRoot(t)
	testenv.NeedProgram(t, "ip")
	testenv.NeedProgram(t, "tc")
	id := strconv.Itoa(os.Getpid())
	n := &network{t: t, server: "es-s" + id, client: "es-c" + id, addr: "10.213.7.1"}
	for _, ns := range []string{n.server, n.client} {
		if msg, err := exec.Command("ip", "netns", "add", ns).CombinedOutput(); err != nil {
			testenv.Skip(t, "needs network namespaces: %v: %s", err, msg)
		}
		t.Cleanup(func() { exec.Command("ip", "netns", "del", ns).Run() })
	}
	n.ip("link", "add", "wire", "netns", n.server, "type", "veth", "peer", "name", "wire", "netns", n.client)
	n.ip("-n", n.server, "addr", "add", n.addr+"/24", "dev", "wire")
	n.ip("-n", n.client, "addr", "add", "10.213.7.2/24", "dev", "wire")
	for _, ns := range []string{n.server, n.client} {
		n.ip("-n", ns, "link", "set", "wire", "up")
	}
	return n
}

func (n *network) ip(args ...string) {
	n.t.Helper()
	if msg, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		n.t.Fatalf("ip %v: %v: %s", args, err, msg)
	}
}

// cut has the wire lose everything, without a word to either end.
func (n *network) cut() {
	n.t.Helper()
	for _, ns := range []string{n.server, n.client} {
		if msg, err := exec.Command("tc", "-n", ns, "qdisc", "add", "dev", "wire", "root", "netem", "loss", "100%").CombinedOutput(); err != nil {
			// A kernel without netem: a queue that takes nothing does the same.
			if msg2, err := exec.Command("tc", "-n", ns, "qdisc", "add", "dev", "wire", "root", "tbf", "rate", "8bit", "burst", "1", "limit", "1").CombinedOutput(); err != nil {
				n.t.Fatalf("tc: %v: %s %s", err, msg, msg2)
			}
		}
	}
}

func (n *network) mend() {
	n.t.Helper()
	for _, ns := range []string{n.server, n.client} {
		if msg, err := exec.Command("tc", "-n", ns, "qdisc", "del", "dev", "wire", "root").CombinedOutput(); err != nil {
			n.t.Fatalf("tc: %v: %s", err, msg)
		}
	}
}

// in is a command line in a namespace.
func in(ns, name string, args ...string) []string {
	return append([]string{"ip", "netns", "exec", ns, name}, args...)
}

func (n *network) launch(ns, name string, args ...string) *ours {
	n.t.Helper()
	line := in(ns, name, args...)
	return launch(n.t, line[0], line[1:]...) // ip executes it: it has the same number
}

// configure makes certificates for the server, and a token of a user who may do
// everything; it gives their directory and the token's file.
func (n *network) configure(endoscoped string) (dir, token string) {
	n.t.Helper()
	dir = filepath.Join(n.t.TempDir(), "conf")
	if msg, err := exec.Command(endoscoped, "init", "--config", dir, "--host", n.addr).CombinedOutput(); err != nil {
		n.t.Fatalf("%v: %s", err, msg)
	}
	if err := os.WriteFile(filepath.Join(dir, "users"), []byte("user alice\n role admin\n limits sessions=0 queries=0 probes=0 events=0 memory=0\n"), 0o644); err != nil {
		n.t.Fatal(err)
	}
	text, err := exec.Command(endoscoped, "token", "add", "alice", "--config", dir).Output()
	if err != nil {
		n.t.Fatal(err)
	}
	token = filepath.Join(dir, "alice.token")
	if err := os.WriteFile(token, text, 0o600); err != nil {
		n.t.Fatal(err)
	}
	return dir, token
}

// Where the wire is cut nobody hears of the other: the server ends the queries
// after its time, and the client says so.
func (b binaries) wireIsCut(t *testing.T) {
	n := newNetwork(t)
	conf, token := n.configure(b.endoscoped)
	target := launch(t, b.ticking)
	d := n.launch(n.server, b.endoscoped, "--listen", n.addr+":7002", "--config", conf, "--client-timeout", "2s")
	d.says("listening", 5*time.Second)
	client := n.launch(n.client, b.endoscope, "--connect", n.addr+":7002", "--ca", filepath.Join(conf, "ca.pem"), "--token-file", token, "--format", "csv", "-c",
		fmt.Sprintf("SELECT timestamp FROM function_start WHERE pid = %d AND function_name = 'work'", target.cmd.Process.Pid))
	lasting := n.launch(n.client, b.endoscope, "--connect", n.addr+":7002", "--ca", filepath.Join(conf, "ca.pem"), "--token-file", token, "--format", "csv", "--reconnect", "-c",
		fmt.Sprintf("SELECT timestamp FROM function_start WHERE pid = %d AND function_name = 'work'", target.cmd.Process.Pid))
	client.says("Z\n", 10*time.Second)
	lasting.says("Z\n", 10*time.Second)
	d.holds(true, time.Second)
	n.cut()
	took := d.holds(false, 4*time.Second)
	t.Logf("the probes are gone after %v", took.Round(time.Millisecond))
	client.says("no connection to the engine at "+n.addr+":7002", 20*time.Second)

	n.mend()
	lasting.says("connected again: ", 30*time.Second)
	d.holds(true, 5*time.Second)
}

func command(name string, args ...string) *exec.Cmd { return exec.Command(name, args...) }

// startPiped starts a program that waits until the function that it returns is
// called.
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
	p.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return func() {
		if _, err := in.Write([]byte{'\n'}); err != nil {
			p.t.Fatal(err)
		}
	}
}

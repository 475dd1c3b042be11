package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"endoscope/probes/testenv"
)

// known waits for a start signal and then makes the calls that the queries of
// theSameResults expect.
const known = `#include <stdio.h>
#include <unistd.h>
__attribute__((noinline)) long work(long i) { __asm__ volatile("" : : "r"(i)); return i * 2; }
__attribute__((noinline)) long nap(long us) { usleep(us); __asm__ volatile(""); return us; }
__attribute__((noinline)) long outer(long i) { long r = work(i) + work(i + 1); __asm__ volatile(""); return r; }
int main(void) {
	char line[16];
	volatile long s = 0;
	if (read(0, line, 1) != 1) return 1;
	for (long i = 0; i < 1000; i++) s += work(i);
	for (long i = 0; i < 50; i++) { s += outer(i); s += nap(2000); }
	return 0;
}`

// twoMachines runs the daemon on one machine and its clients on another: results are
// the same as on the daemon's machine, and both sides notice failures of the wire.
func (b binaries) twoMachines(t *testing.T) {
	n := newNetwork(t)
	conf, token := n.configure(b.endoscoped)
	d := n.launch(n.server, b.endoscoped, "--listen", n.addr+":7002", "--config", conf, "--client-timeout", "20s")
	d.says("listening")
	m := &machines{binaries: b, network: n, daemon: d,
		connect: []string{"--connect", n.addr + ":7002", "--ca", filepath.Join(conf, "ca.pem"), "--token-file", token}}
	t.Run("the same results", m.theSameResults)
	t.Run("a wire that is cut", m.wireIsCut)
	t.Run("a client that dies without a wire", m.halfOpen)
}

// machines are two machines, one with a daemon.
type machines struct {
	binaries
	*network
	daemon  *ours
	connect []string // flags by which a client on the other machine connects
}

// client starts a client on the other machine.
func (m *machines) client(args ...string) *ours {
	return m.launch(m.network.client, m.endoscope, append(m.connect, args...)...)
}

// asking is a client whose result the test reads.
type asking struct {
	ours
	rows testenv.Buffer
}

// ask starts a client.
func ask(t *testing.T, line []string, statement string) *asking {
	t.Helper()
	a := &asking{ours: ours{t: t, cmd: exec.Command(line[0], append(line[1:], "--format", "csv", "-c", statement)...)}}
	a.cmd.Stdout, a.cmd.Stderr = &a.rows, &a.out
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = a.cmd.Process.Kill()
		_ = a.cmd.Wait()
	})
	return a
}

// armed waits until the query is armed: then its column names are printed. Attached
// probes do not show it, since the cost estimate attaches some too.
func (a *asking) armed() {
	a.t.Helper()
	testenv.UntilNil(a.t, "the query is armed", func() error {
		if a.rows.String() == "" {
			return errors.New(a.out.String())
		}
		return nil
	})
}

// answer waits for the end and returns the result.
func (a *asking) answer() string {
	a.t.Helper()
	if err := a.cmd.Wait(); err != nil {
		a.t.Fatalf("%v\n%s", err, a.out.String())
	}
	return a.rows.String()
}

// A local engine and a remote client query one program at the same time: every query
// returns the same result to both.
func (m *machines) theSameResults(t *testing.T) {
	program := testenv.CompileCText(t, known, "-O1", "-fno-optimize-sibling-calls")
	file := filepath.Join(t.TempDir(), "rows.csv")
	var rows strings.Builder
	rows.WriteString("timestamp,v\n")
	for i := range 1000 {
		fmt.Fprintf(&rows, "2026-01-02T03:%02d:%02d.500Z,%d\n", i/60, i%60, i)
	}
	if err := os.WriteFile(file, []byte(rows.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ statement, want string }{
		{"SELECT function_name, COUNT(*), SUM(arg0), MIN(arg0), MAX(arg0) FROM function_start WHERE pid = $PID AND function_name IN (work, nap, outer) GROUP BY function_name ORDER BY function_name",
			"function_name,count(*),sum(arg0),min(arg0),max(arg0)\nnap,50,100000,2000,2000\nouter,50,1225,0,49\nwork,1100,502000,0,999\n"},
		{"SELECT function_name, COUNT(*), SUM(retval), MIN(duration) >= 2ms AS long FROM function_duration WHERE pid = $PID AND function_name IN (nap) GROUP BY function_name",
			"function_name,count(*),sum(retval),long\nnap,50,100000,true\n"},
		{"SELECT arg0 FROM function_start WHERE pid = $PID AND function_name = 'work' AND arg0 % 250 = 249", "arg0\n249\n499\n749\n999\n"},
		{"SELECT SUM(n) FROM (SELECT window_end, COUNT(*) AS n FROM TUMBLE(function_start, 10ms) WHERE pid = $PID AND function_name = 'work' GROUP BY window_end)", "sum(n)\n1100\n"},
		{"SELECT percent_busy BETWEEN 0 AND 100 AS sane FROM SAMPLE(cpu_usage, 20ms) LIMIT 3", "sane\ntrue\ntrue\ntrue\n"},
		{"SELECT window_start, COUNT(*), SUM(v), MEDIAN(v) FROM HOP(file('" + file + "'), 1min, 2min) GROUP BY window_start", ""},
	} {
		statement, begin := c.statement, func() {}
		probes := strings.Contains(statement, "$PID")
		if probes {
			target := &ours{t: t, cmd: command(program)}
			begin = target.startPiped()
			statement = strings.ReplaceAll(statement, "$PID", fmt.Sprint(target.cmd.Process.Pid))
		}
		here := ask(t, []string{m.endoscope}, statement)
		there := ask(t, append(in(m.network.client, m.endoscope), m.connect...), statement)
		if probes {
			here.armed()
			there.armed()
		}
		begin()
		got, want := there.answer(), here.answer()
		if got != want || c.want != "" && got != c.want || strings.Count(got, "\n") < 2 {
			t.Errorf("%s\nfrom the other machine\n%s%son the spot\n%s%swant\n%s", statement, got, there.out.String(), want, here.out.String(), c.want)
		}
	}
}

// If the wire is cut, neither side hears from the other: the server ends the queries
// after its timeout, and the clients report it. When the wire is restored, a
// reconnecting client continues and reports what is missing.
func (m *machines) wireIsCut(t *testing.T) {
	target := launch(t, m.ticking)
	query := fmt.Sprintf("SELECT timestamp FROM function_start WHERE pid = %d AND function_name = 'work'", target.cmd.Process.Pid)
	client := m.client("--format", "csv", "-c", query)
	lasting := m.client("--format", "csv", "--reconnect", "-c", query)
	client.says("Z\n")
	lasting.says("Z\n")
	m.daemon.holds(true)
	m.cut()
	took := m.daemon.holds(false)
	t.Logf("the probes are gone after %v", took.Round(time.Millisecond))
	client.says("no connection to the engine at " + m.addr + ":7002")
	if err := client.cmd.Wait(); err == nil || client.cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("it ended with %v", err)
	}

	m.mend()
	lasting.says("reconnected: ")
	m.daemon.holds(true)
	n := len(lasting.out.String())
	testenv.Until(t, "there are rows after it", func() bool { return len(lasting.out.String()) >= n+1000 })
	if err := lasting.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	lasting.reportsGaps()
	m.daemon.holds(false)
}

// A client that dies while the wire is cut cannot notify the server: the server has a
// half-open connection, and ends the queries after its timeout.
func (m *machines) halfOpen(t *testing.T) {
	target := launch(t, m.ticking)
	client := m.client("-c", fmt.Sprintf("SELECT COUNT(*) FROM function_start WHERE pid = %d AND function_name = 'work'", target.cmd.Process.Pid))
	m.daemon.holds(true)
	m.cut()
	defer m.mend()
	if err := client.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	took := m.daemon.holds(false)
	t.Logf("the probes are gone after %v", took.Round(time.Millisecond))
}

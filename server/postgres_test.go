package server_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// postgres is a server of ours in a temporary folder, run as the user that
// Debian's package makes, since it refuses to run as root.
type postgres struct {
	t    testing.TB
	bin  string // where its programs are
	exe  string // a copy of the server, which nobody else runs
	dir  string
	log  string
	port int
	uid  *syscall.Credential
}

// startPostgres starts a server that logs its statements; settings, such as
// log_statement=none, come last and so prevail.
func startPostgres(t testing.TB, settings ...string) *postgres {
	t.Helper()
	testenv.NeedRoot(t) // it runs as another user
	initdb, err := filepath.EvalSymlinks(testenv.NeedProgram(t, "initdb"))
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Dir(initdb)
	u, err := user.Lookup("postgres")
	if err != nil {
		t.Fatalf("PostgreSQL is installed but has no user: %v", err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	dir, err := os.MkdirTemp("", "endoscope-pg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	p := &postgres{t: t, bin: bin, dir: dir, log: filepath.Join(dir, "log"), port: freePort(t),
		uid: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	p.exe = filepath.Join(dir, "postgres")
	testenv.CopyFile(t, filepath.Join(bin, "postgres"), p.exe)
	testenv.PostgresData(t, dir)
	args := []string{"-D", filepath.Join(dir, "data"), "-p", strconv.Itoa(p.port), "-k", dir,
		"-c", "listen_addresses=", "-c", "log_statement=all", "-c", "log_line_prefix=", "-c", "fsync=off"}
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	server := p.command(p.exe, args...)
	logFile, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	server.Stdout, server.Stderr = logFile, logFile
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	logFile.Close()
	t.Cleanup(func() { server.Process.Signal(syscall.SIGQUIT); server.Wait() })
	testenv.UntilNil(t, "postgres answers", func() error {
		return p.command("psql", "-h", dir, "-p", strconv.Itoa(p.port), "-c", "", "postgres").Run()
	})
	p.run("createdb", "-h", dir, "-p", strconv.Itoa(p.port), "bench")
	return p
}

// command is one of PostgreSQL's programs, or another by its path.
func (p *postgres) command(name string, args ...string) *exec.Cmd {
	if !filepath.IsAbs(name) {
		name = filepath.Join(p.bin, name)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.uid}
	return cmd
}

func (p *postgres) run(name string, args ...string) string {
	p.t.Helper()
	out, err := p.command(name, args...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

func (p *postgres) pgbench(args ...string) string {
	p.t.Helper()
	return p.run("pgbench", append([]string{"-h", p.dir, "-p", strconv.Itoa(p.port)}, append(args, "bench")...)...)
}

// statements counts those that the server logged, by their first words.
func (p *postgres) statements() map[string]int64 {
	p.t.Helper()
	text, err := os.ReadFile(p.log)
	if err != nil {
		p.t.Fatal(err)
	}
	counts := map[string]int64{}
	for line := range bytes.Lines(text) {
		if rest, ok := strings.CutPrefix(string(line), "LOG:  statement: "); ok {
			words := strings.Fields(rest)
			counts[strings.ToLower(strings.Join(words[:min(3, len(words))], " "))]++
		}
	}
	return counts
}

// execSimpleQuery is the name of the function that runs a statement of the
// simple protocol. It is static, and Debian's build is stripped: there it is a
// sub_ followed by its address, the last function before PostgresMain. That it
// is the one, the test below shows by the protocol that does not call it.
func execSimpleQuery(t testing.TB, s wire.Session) string {
	t.Helper()
	if len(ask(t, s, "SHOW FUNCTIONS LIKE 'exec_simple_query'").rows) == 1 {
		return "exec_simple_query"
	}
	before := ""
	for _, row := range ask(t, s, "SHOW FUNCTIONS").rows { // by address
		if row[0] == "PostgresMain" {
			return before
		}
		before = row[0]
	}
	t.Fatal("postgres has no PostgresMain")
	return ""
}

// TestPostgresCountsEqualPgbench counts exec_simple_query in all backends of
// the executable, none of which runs when the query is armed, and compares with
// the transactions that pgbench reports and the statements that the server
// logs. The difference between those two is pgbench's own set-up. In the
// extended protocol only the set-up is left.
func TestPostgresCountsEqualPgbench(t *testing.T) {
	testenv.NeedUprobes(t)
	p := startPostgres(t)
	p.pgbench("-i", "-s", "1", "-q")
	s := newSession(t, wire.Options{Exe: p.exe})
	name := execSimpleQuery(t, s)
	for _, mode := range []string{"simple", "extended"} {
		before := p.statements()
		q := start(t, s, fmt.Sprintf("SELECT COUNT(*), COUNT(DISTINCT pid) FROM function_start WHERE exe = '%s' AND function_name = '%s'", p.exe, name))
		out := p.pgbench("-S", "-n", "-M", mode, "-c", "4", "-t", "500")
		q.Stop()
		a := read(t, q)
		complete(t, a)

		m := regexp.MustCompile(`transactions actually processed: (\d+)`).FindStringSubmatch(out)
		if m == nil || m[1] != "2000" {
			t.Fatalf("pgbench said %q", out)
		}
		var setup int64
		for words, n := range p.statements() {
			if n -= before[words]; n > 0 && words != "select abalance from" {
				t.Logf("set-up statement: %s ... (%d)", words, n)
				setup += n
			}
		}
		want, backends := setup, int64(1) // the connection that pgbench looks around with
		if mode == "simple" {
			want, backends = want+2000, backends+4
		}
		if got := number(t, a, 0, 0); got != want || setup == 0 {
			t.Errorf("%s protocol: %s was called %d times, for 2,000 transactions and %d set-up statements", mode, name, got, setup)
		}
		if got := number(t, a, 0, 1); got != backends {
			t.Errorf("%s protocol: %d backends were seen, want %d", mode, got, backends)
		}
	}
}

package remote_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"endoscope/client/remote"
	"endoscope/server/daemon"
	"endoscope/server/wire"
)

// guarded is a daemon with certificates and users.
type guarded struct {
	t     *testing.T
	dir   string
	addr  string
	audit string // a file
}

// guard runs one until the test ends.
func guard(t *testing.T, users string) *guarded {
	t.Helper()
	g := &guarded{t: t, dir: filepath.Join(t.TempDir(), "conf")}
	g.audit = filepath.Join(g.dir, "audit")
	g.command("init", "--config", g.dir, "--host", "localhost")
	if err := os.WriteFile(filepath.Join(g.dir, "users"), []byte(users), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, over := make(chan []net.Addr, 1), make(chan int, 1)
	var msg bytes.Buffer // the daemon's until it has ended
	go func() {
		p := daemon.Program{Stdout: io.Discard, Stderr: &msg, Ready: func(at []net.Addr) { ready <- at }}
		over <- p.Run(ctx, []string{"--listen", "127.0.0.1:0", "--config", g.dir, "--audit", g.audit})
	}()
	stop := sync.OnceFunc(func() {
		cancel()
		if code := <-over; code != 0 {
			t.Errorf("the daemon ends with %d: %s", code, msg.String())
		}
	})
	t.Cleanup(stop)
	select {
	case at := <-ready:
		_, port, _ := net.SplitHostPort(at[0].String())
		g.addr = net.JoinHostPort("localhost", port)
	case code := <-over:
		over <- code
		stop()
		t.FailNow()
	}
	return g
}

// command runs one of the daemon's commands and returns its output.
func (g *guarded) command(args ...string) string {
	g.t.Helper()
	var out, msg bytes.Buffer
	if code := (daemon.Program{Stdout: &out, Stderr: &msg}).Run(g.t.Context(), args); code != 0 {
		g.t.Fatalf("%v: exit code %d: %s", args, code, msg.String())
	}
	return strings.TrimSpace(out.String())
}

// session connects a user over TLS, with a new token.
func (g *guarded) session(user string) wire.Session {
	g.t.Helper()
	ca, err := os.ReadFile(filepath.Join(g.dir, "ca.pem"))
	if err != nil {
		g.t.Fatal(err)
	}
	conf := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS13}
	conf.RootCAs.AppendCertsFromPEM(ca)
	e, err := remote.Dial(g.addr, remote.Options{TLS: conf, Token: g.command("token", "add", user, "--config", g.dir)})
	if err != nil {
		g.t.Fatal(err)
	}
	x, err := e.NewSession(g.t.Context(), wire.Options{})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = x.Close() })
	return x
}

// users rewrites the file of users.
func (g *guarded) users(text string) {
	g.t.Helper()
	file := filepath.Join(g.dir, "users")
	if err := os.WriteFile(file+".new", []byte(text), 0o644); err != nil {
		g.t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		g.t.Fatal(err)
	}
}

// With a daemon, TLS and a token, queries are split as with an engine without a
// guard: EXPLAIN shows it, and the results do not depend on the placement. Neither
// limits nor the audit log differ.
func TestGuardedQueriesAreDivided(t *testing.T) {
	g := guard(t, "user alice\n  role read\n  limits queries=1\n")
	x := g.session("alice")
	const query = "SELECT n % 10 AS k, count(*), max(n) FROM series(100000) WHERE n % 3 = 0 GROUP BY k ORDER BY k"
	wants := map[string][]string{
		"auto":   {"merges states of the server's", "* as much as possible at the server"},
		"client": {"* all at the client", "(client)"},
		"server": {"(server)"},
	}
	results := map[string]bool{}
	for where, want := range wants {
		all(t, execute(t, x, "SET placement = '"+where+"'"))
		for _, how := range []string{"EXPLAIN ", "EXPLAIN ANALYZE "} {
			text := explanation(t, x, how+query)
			for _, w := range want {
				if !strings.Contains(text, w) {
					t.Errorf("placement = %s: %sdoes not say %q:\n%s", where, how, w, text)
				}
			}
			if where == "server" && strings.Contains(text, "client") {
				t.Errorf("placement = server, and something is at the client:\n%s", text)
			}
		}
		results[resultText(t, execute(t, x, query))] = true
	}
	if len(results) != 1 {
		t.Errorf("where it is executed makes a difference: %v", results)
	}
	// One query at a time, whatever its placement.
	all(t, execute(t, x, "SET placement = 'client'"))
	const endless = "SELECT count(*) FROM SAMPLE(memory_usage, 10ms) WHERE used + available > 0 EMIT EVERY 50ms"
	r := execute(t, x, endless)
	if _, err := x.Execute(t.Context(), endless); err == nil || !strings.Contains(err.Error(), "queries") {
		t.Errorf("a second query beyond the limit: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	audit, err := os.ReadFile(g.audit)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for line := range strings.Lines(string(audit)) {
		for _, msg := range []string{"armed", "ended", "refused"} {
			if strings.Contains(line, `"msg":"`+msg+`"`) && strings.Contains(line, `"user":"alice"`) {
				seen[msg]++
			}
		}
	}
	// Three results, three of EXPLAIN ANALYZE, and the endless one.
	if seen["armed"] != 7 || seen["ended"] != 7 || seen["refused"] != 1 {
		t.Errorf("on record: %v\n%s", seen, audit)
	}
}

// A user who is expelled while the client executes most of a query loses the query as
// any other: it ends with the reason, and its partial result is not reported as
// complete.
func TestExpelledFromDividedQueries(t *testing.T) {
	g := guard(t, "user alice\n  role read\nuser bob\n  role read\n")
	const query = "SELECT count(*) FROM SAMPLE(memory_usage, 10ms) WHERE used + available > 0"
	next := func(r wire.Result) error {
		for {
			ev, err := r.Next(t.Context())
			if err != nil {
				return err
			}
			if ev.Batch != nil {
				ev.Batch.Release()
				return nil
			}
		}
	}
	sessions, running := map[string]wire.Session{}, map[string]wire.Result{}
	for _, user := range []string{"alice", "bob"} {
		x := g.session(user)
		all(t, execute(t, x, "SET placement = 'client'"))
		if text := explanation(t, x, "EXPLAIN "+query); !strings.Contains(text, "* all at the client") {
			t.Fatalf("%s executes nothing:\n%s", user, text)
		}
		sessions[user], running[user] = x, execute(t, x, query+" EMIT EVERY 50ms")
		if err := next(running[user]); err != nil {
			t.Fatal(err)
		}
	}
	final := execute(t, sessions["alice"], query) // returns a row only when it ends
	g.users("user bob\n  role read\n")
	for _, r := range []wire.Result{running["alice"], final} {
		var err error
		for rows := 0; err == nil; rows++ {
			if err = next(r); err == nil && r == final {
				t.Error("a total is given of what did not end")
			}
		}
		if errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "your grant has changed: connect again") {
			t.Errorf("the result ends with %v", err)
		}
	}
	if _, err := sessions["alice"].Execute(t.Context(), "SELECT * FROM series(1)"); err == nil {
		t.Error("statements are executed after it")
	}
	for range 3 {
		if err := next(running["bob"]); err != nil {
			t.Errorf("bob's result ends, too: %v", err)
		}
	}
	if err := running["bob"].Close(); err != nil {
		t.Error(err)
	}
	audit, err := os.ReadFile(g.audit)
	if err != nil {
		t.Fatal(err)
	}
	ended := 0
	for line := range strings.Lines(string(audit)) {
		if strings.Contains(line, `"msg":"ended"`) && strings.Contains(line, `"user":"alice"`) {
			ended++
		}
	}
	if ended != 2 || !strings.Contains(string(audit), `"msg":"expelled"`) {
		t.Errorf("%d of alice's queries have ended on record:\n%s", ended, audit)
	}
}

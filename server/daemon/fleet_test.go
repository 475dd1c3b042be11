package daemon

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	natsd "github.com/nats-io/nats-server/v2/server"

	"endoscope/probes/testenv"
)

// A host and an author are enrolled, a NATS server runs with the users that are printed, and
// the list of revoked certificates reaches it.
func TestEnrollRevokeBus(t *testing.T) {
	dir := t.TempDir()
	run := func(line string) (out, msg string) {
		t.Helper()
		var o, m bytes.Buffer
		if code := (Program{Stdout: &o, Stderr: &m}).Run(t.Context(), append(strings.Fields(line), "--config", dir)); code != exitDone {
			t.Fatalf("%s: exit code %d: %s", line, code, m.String())
		}
		return o.String(), m.String()
	}
	run("init --host localhost")
	creds, msg := run("enroll db1 --label rack=r1")
	if creds != filepath.Join(dir, "fleet/hosts/db1.creds")+"\n" || !strings.HasPrefix(msg, "certificate ") {
		t.Errorf("enroll: %s%s", creds, msg)
	}
	serial := strings.Fields(msg)[1]
	if _, msg := run("enroll alice --role author"); !strings.Contains(msg, "notice: alice has no access until") {
		t.Errorf("an author without an entry: %s", msg)
	}
	users, _ := run("bus")
	if only, _ := run("bus db1"); len(only) >= len(users) || !strings.Contains(only, "# host db1") {
		t.Errorf("the users of db1 are:\n%s", only)
	}
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(users), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := natsd.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	o.Host, o.Port, o.JetStream, o.StoreDir, o.NoSigs, o.NoLog = "127.0.0.1", natsd.RANDOM_PORT, true, t.TempDir(), true, true
	s, err := natsd.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	testenv.Until(t, "the NATS server runs", func() bool { return s.Addr() != nil })
	alice := filepath.Join(dir, "fleet/authors/alice.creds")
	if out, _ := run("revoke " + serial + " --fleet " + s.ClientURL() + " --creds " + alice); !strings.HasPrefix(out, "list ") {
		t.Errorf("revoke: %s", out)
	}
	if users, _ := run("bus"); strings.Contains(users, "db1") {
		t.Errorf("a revoked host is a user of the bus:\n%s", users)
	}
	var m bytes.Buffer
	args := strings.Fields("--fleet " + s.ClientURL() + " --creds " + alice + " --config " + dir)
	if code := (Program{Stderr: &m}).Run(t.Context(), args); code != exitUsage || !strings.Contains(m.String(), "these are the credentials of author alice, not of a host") {
		t.Errorf("a host with credentials of an author: exit code %d: %s", code, m.String())
	}
	m.Reset()
	reducer := Program{Stderr: &m, Reduce: func(context.Context, Reducing) error { return nil }}
	if code := reducer.Run(t.Context(), append(args, "--reduce")); code != exitUsage || !strings.Contains(m.String(), "--reduce: these are the credentials of author alice, not of a reducer\nhint: endoscoped enroll NAME --role reducer") {
		t.Errorf("a reducer with credentials of an author: exit code %d: %s", code, m.String())
	}
	run("enroll r1 --role reducer")
	args = strings.Fields("--fleet " + s.ClientURL() + " --creds " + filepath.Join(dir, "fleet/reducers/r1.creds") + " --config " + dir)
	var got Reducing
	reducer.Reduce = func(_ context.Context, r Reducing) error {
		got = r
		return nil
	}
	if code := reducer.Run(t.Context(), append(args, "--reduce")); code != exitDone || got.Name != "r1" || got.Shards != 4 {
		t.Errorf("a reducer: exit code %d, %+v: %s", code, got, m.String())
	}
	m.Reset()
	if code := reducer.Run(t.Context(), args); code != exitUsage || !strings.Contains(m.String(), "a reducer is no host: it merges results, or keeps standing queries\nhint: --reduce, or --standing") {
		t.Errorf("a host with credentials of a reducer: exit code %d: %s", code, m.String())
	}
}

package server_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"endoscope/server"
	"endoscope/server/grant"
	"endoscope/server/wire"
)

// restart closes an engine and opens one with the same state.
func restart(t *testing.T, before *server.Engine, dir string) *server.Engine {
	t.Helper()
	if before != nil {
		if err := before.Close(); err != nil {
			t.Fatal(err)
		}
	}
	e, err := server.New(server.Options{ModelDir: filepath.Join(dir, "models"), StateDir: filepath.Join(dir, "state")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func everybody(owner string) (*grant.Grant, bool) {
	return &grant.Grant{User: owner, Admin: true, Trace: true, Models: true}, true
}

func sessionOf(t *testing.T, e *server.Engine, owner string) wire.Session {
	t.Helper()
	may, _ := everybody(owner)
	s, err := e.As(may).NewSession(t.Context(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestDefinitionsOutliveTheEngine(t *testing.T) {
	dir := t.TempDir()
	e := restart(t, nil, dir)
	alice := sessionOf(t, e, "alice")
	run(t, alice, "CREATE STREAM load AS SELECT timestamp, percent_busy AS busy FROM SAMPLE(cpu_usage, 50ms)")
	run(t, alice, "CREATE STREAM again AS SELECT timestamp, busy FROM load")
	run(t, alice, "CREATE STREAM gone AS SELECT * FROM series(3)")
	run(t, alice, "DROP STREAM gone")
	run(t, alice, "USE PID "+fmt.Sprint(os.Getpid()))
	run(t, alice, "SET lateness = 5ms")
	run(t, alice, "CREATE TRIGGER hot ON again WHEN busy >= 0 BEGIN NOTIFY 'hot' END")
	run(t, alice, "CREATE TRIGGER mine ON SAMPLE(process_usage, 50ms) WHEN threads > 0 BEGIN NOTIFY 'it runs' END")
	run(t, alice, "CREATE TRIGGER dropped ON again WHEN busy >= 0 BEGIN NOTIFY 'hot' END")
	run(t, alice, "DROP TRIGGER dropped")
	run(t, sessionOf(t, e, "bob"), "CREATE TRIGGER hot ON SAMPLE(cpu_usage, 1h) WHEN percent_busy > 100 BEGIN NOTIFY 'x' END")
	// As they were stored before each owner had names of their own.
	old := filepath.Join(dir, "state", "stream.load.json")
	if err := os.Rename(filepath.Join(dir, "state", "stream.alice%2Eload.json"), old); err != nil {
		t.Fatal(err)
	}
	run(t, alice, "CREATE CONTEXT request AS BEGIN function_start WHERE function_name = 'handle' KEY str(args.id)")
	run(t, sessionOf(t, e, "bob"), "CREATE CONTEXT request AS BEGIN function_start WHERE function_name = 'serve' KEY arg0")
	run(t, alice, "CREATE MODEL counts AS SELECT AUTOMATON(n % 3) FROM series(9)")
	if err := os.Rename(filepath.Join(dir, "models", "alice%2Ecounts.json"), filepath.Join(dir, "models", "counts.json")); err != nil {
		t.Fatal(err)
	}

	e = restart(t, e, dir)
	if left := e.Restore(t.Context(), everybody); len(left) > 0 {
		t.Fatalf("not restored: %+v", left)
	}
	bob, alice := sessionOf(t, e, "bob"), sessionOf(t, e, "alice")
	names := ""
	for _, row := range run(t, bob, "SHOW TRIGGERS").rows {
		names += row[len(row)-1] + "." + row[0] + " "
	}
	if names != "alice.hot bob.hot alice.mine " {
		t.Errorf("triggers: %s", names)
	}
	for owner, begins := range map[string]string{"alice": "handle", "bob": "serve"} {
		found := false
		for _, row := range run(t, sessionOf(t, e, owner), "SHOW CONTEXTS").rows {
			found = found || row[0] == "request" && strings.Contains(row[1], begins) && row[len(row)-1] == owner
		}
		if !found {
			t.Errorf("the context of %s is not there", owner)
		}
	}
	if rows := run(t, alice, "SELECT * FROM hot LIMIT 2").rows; len(rows) != 2 {
		t.Errorf("%d activations", len(rows))
	}
	if rows := run(t, bob, "SELECT * FROM alice.mine LIMIT 1").rows; len(rows) != 1 {
		t.Errorf("the session's target is not what it was")
	}
	if _, err := bob.Execute(t.Context(), "SELECT * FROM gone"); err == nil {
		t.Error("a stream that was dropped is there again")
	}
	if rows := run(t, alice, "SELECT CONFORMS(n % 3, counts) FROM series(9)").rows; len(rows) != 1 || rows[0][0] != "true" {
		t.Errorf("the model: %v", rows)
	}
	if _, err := os.Lstat(old); err == nil {
		t.Error("the file of a stream has its old name")
	}
	run(t, bob, "DROP TRIGGER hot")
	run(t, alice, "DROP TRIGGER hot")
	run(t, alice, "DROP TRIGGER mine")
	run(t, alice, "DROP STREAM again")
	e = restart(t, e, dir)
	if left := e.Restore(t.Context(), everybody); len(left) > 0 {
		t.Fatalf("not restored: %+v", left)
	}
	if rows := run(t, sessionOf(t, e, "bob"), "SHOW TRIGGERS").rows; len(rows) > 0 {
		t.Errorf("triggers that were dropped are there again: %v", rows)
	}
}

// What cannot be made again now waits; what is about a process that has ended is
// gone; what is another user's by now is not made.
func TestDefinitionsThatWait(t *testing.T) {
	dir := t.TempDir()
	sleep := exec.Command("sleep", "60")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	named := filepath.Join(t.TempDir(), "es-waits")
	program, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(named, text, 0o755); err != nil {
		t.Fatal(err)
	}
	begin := func() *exec.Cmd {
		c := exec.Command(named, "60")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Process.Kill(); c.Wait() })
		return c
	}
	waits := begin()
	e := restart(t, nil, dir)
	alice := sessionOf(t, e, "alice")
	run(t, alice, fmt.Sprintf("CREATE TRIGGER pinned ON SAMPLE(process_usage, 50ms) WHEN pid = %d AND threads > 0 BEGIN NOTIFY 'x' END", sleep.Process.Pid))
	run(t, alice, "CREATE TRIGGER named ON SAMPLE(process_usage, 50ms) WHEN process = 'es-waits' AND threads > 0 BEGIN NOTIFY 'x' END")
	for _, c := range []*exec.Cmd{sleep, waits} {
		c.Process.Kill()
		c.Wait()
	}
	e = restart(t, e, dir)
	told := ""
	for _, u := range e.Restore(t.Context(), everybody) {
		told += fmt.Sprintf("%s gone=%t %v; ", u.Name, u.Gone, u.Err)
	}
	if !strings.Contains(told, "alice.pinned gone=true the observed process has ended; ") || !strings.Contains(told, "alice.named gone=false") {
		t.Errorf("told: %s", told)
	}
	if left := e.Restore(t.Context(), func(string) (*grant.Grant, bool) { return nil, false }); len(left) != 1 || left[0].Err.Error() != "alice has no access" {
		t.Errorf("who has no access: %+v", left)
	}
	begin()
	if left := e.Restore(t.Context(), everybody); len(left) > 0 {
		t.Errorf("when it runs again: %+v", left)
	}
	run(t, sessionOf(t, e, "alice"), "DROP TRIGGER named")
}

package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/plan"
	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/grant"
	"endoscope/server/wire"
)

// shop is an engine with the sessions of several users.
type shop struct {
	t testing.TB
	e *server.Engine
}

func newShop(t testing.TB) *shop {
	t.Helper()
	e, err := server.New(server.Options{ModelDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return &shop{t, e}
}

func (s *shop) session(g *grant.Grant) wire.Session {
	s.t.Helper()
	ws, err := s.e.As(g).NewSession(s.t.Context(), wire.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { ws.Close() })
	return ws
}

// begin starts a query that goes on until the test ends.
func (s *shop) begin(ws wire.Session, statement string) wire.Result {
	s.t.Helper()
	r := start(s.t, ws, statement)
	s.t.Cleanup(func() { r.Close() })
	return r
}

const (
	aliceUID = 51234
	bobUID   = 51236
)

func reader(name string) *grant.Grant {
	return &grant.Grant{User: name, Viewer: &plan.Viewer{Name: name}}
}

func tracer(name string, uid uint32, shared bool) *grant.Grant {
	return &grant.Grant{User: name, Trace: true, Viewer: &plan.Viewer{Name: name, Local: true, UID: uid, GIDs: []uint32{uid}, Shared: shared}}
}

func TestRefusedByRole(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "in.csv"), "a\n1\n")
	alice := newShop(t).session(reader("alice"))
	for statement, want := range map[string]string{
		"SELECT * FROM file('" + dir + "/in.csv')":                                                                                            `reading the server's files needs the grant "read"`,
		"INSERT INTO file('" + dir + "/out.csv') SELECT * FROM series(1)":                                                                     `writing files of the server needs the grant "write"`,
		"CREATE TRIGGER t ON SAMPLE(cpu_usage, 100ms) WHEN percent_busy > 1 BEGIN WEBHOOK 'http://127.0.0.1:9/x' END":                         `WEBHOOK needs the grant "webhooks"`,
		"CREATE TRIGGER t ON SAMPLE(cpu_usage, 100ms) WHEN percent_busy > 1 BEGIN INSERT INTO file('/tmp/x.csv') SELECT * FROM series(1) END": `writing files of the server needs the grant "write"`,
		"CREATE MODEL m AS SELECT SEQUITUR(n::VARCHAR) FROM series(5)":                                                                        `creating and dropping models needs the grant "models"`,
		"DROP MODEL m": `creating and dropping models needs the grant "models"`,
		"SELECT * FROM function_start WHERE pid = 1 AND function_name = 'main'": "function_start attaches to processes, which needs the role trace",
		"SELECT * FROM SAMPLE(stack_sample, 10ms) WHERE pid = 1":                "stack_sample attaches to processes, which needs the role trace",
		"SELECT * FROM SAMPLE(process_usage, 1s) WHERE pid = 1":                 "there is no process 1",
		"EXPLAIN SELECT * FROM SAMPLE(process_usage, 1s) WHERE pid = 1":         "there is no process 1",
		"USE PID 1": "there is no process 1",
	} {
		if got := refusal(t, alice, statement); !strings.Contains(got, "error: "+want) {
			t.Errorf("%s\ngot  %s\nwant %s", statement, got, want)
		}
	}
	// What needs no role.
	run(t, alice, "SELECT * FROM SAMPLE(memory_usage, 20ms) LIMIT 1")
	if rows := run(t, alice, "SHOW PROCESSES").rows; len(rows) > 0 {
		t.Errorf("a reader who is no user of the machine sees processes: %v", rows)
	}
	_, err := newShop(t).e.As(reader("alice")).NewSession(t.Context(), wire.Options{Command: []string{"true"}})
	if err == nil || !strings.Contains(err.Error(), `starting a program as the target needs the grant "commands"`) {
		t.Errorf("a command: %v", err)
	}
}

func TestFilesAndAddressesGranted(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	write(t, filepath.Join(dir, "in.csv"), "a\n1\n")
	write(t, filepath.Join(other, "in.csv"), "a\n1\n")
	if err := os.Symlink(filepath.Join(other, "in.csv"), filepath.Join(dir, "link.csv")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(other, "new.csv"), filepath.Join(dir, "dangling.csv")); err != nil {
		t.Fatal(err)
	}
	g := reader("alice")
	g.Read, g.Write = []string{dir}, []string{dir}
	hook, err := grant.ParsePrefix("http://127.0.0.1:9/hooks")
	if err != nil {
		t.Fatal(err)
	}
	g.Webhooks = []grant.Prefix{hook}
	alice := newShop(t).session(g)
	if rows := run(t, alice, "SELECT a FROM file('in.csv')").rows; len(rows) != 1 {
		t.Errorf("%d rows of a file that is granted", len(rows))
	}
	run(t, alice, "INSERT INTO file('"+dir+"/out.csv') SELECT n FROM series(3)")
	if got := contents(t, filepath.Join(dir, "out.csv")); got != "n\n1\n2\n3\n" {
		t.Errorf("written: %q", got)
	}
	for _, file := range []string{other + "/in.csv", dir + "/../" + filepath.Base(other) + "/in.csv", "../x.csv", dir + "/link.csv", other + "/none.csv"} {
		if got, want := refusal(t, alice, "SELECT * FROM file('"+file+"')"), "'"+file+"' is not in a directory that you may read"; !strings.Contains(got, want) {
			t.Errorf("%s: %s", file, got)
		}
	}
	for _, file := range []string{other + "/out.csv", dir + "/link.csv", dir + "/dangling.csv"} {
		if got, want := refusal(t, alice, "INSERT INTO file('"+file+"') SELECT n FROM series(3)"), "'"+file+"' is not in a directory that you may write"; !strings.Contains(got, want) {
			t.Errorf("%s: %s", file, got)
		}
	}
	if _, err := os.Lstat(filepath.Join(other, "new.csv")); err == nil {
		t.Error("a file outside was made through a link")
	}
	trigger := "CREATE TRIGGER t ON SAMPLE(cpu_usage, 1h) WHEN percent_busy > 1 BEGIN WEBHOOK '%s' END"
	for _, url := range []string{"http://127.0.0.1:9/other", "http://127.0.0.1:9/hooks/../other", "http://127.0.0.1:9/hooks2", "http://127.0.0.1/hooks",
		"https://127.0.0.1:9/hooks", "http://127.0.0.1:9@evil.example/hooks", "http://127.0.0.1.evil.example:9/hooks", "http://127.0.0.1:9/hooks%2f..%2fother", "http://127.0.0.1:9/hooks/..;/other", "http://127.0.0.1:9/hooks/..%5cother"} {
		if got := refusal(t, alice, fmt.Sprintf(trigger, url)); !strings.Contains(got, "you may not send to") || !strings.Contains(got, "\n"+strings.Repeat(" ", len("  CREATE TRIGGER t ON SAMPLE(cpu_usage, 1h) WHEN percent_busy > 1 BEGIN WEBHOOK "))+"^") {
			t.Errorf("%s: %s", url, got)
		}
	}
	run(t, alice, fmt.Sprintf(trigger, "http://127.0.0.1:9/hooks/x"))
	run(t, alice, "DROP TRIGGER t")
}

// What one user runs and makes is theirs; an admin rules over all of it.
func TestUsersAreApart(t *testing.T) {
	s := newShop(t)
	admin := &grant.Grant{User: "root", Admin: true, Trace: true, Models: true}
	alice, bob, root := s.session(reader("alice")), s.session(reader("bob")), s.session(admin)
	s.begin(alice, "SELECT * FROM SAMPLE(memory_usage, 1s)")
	s.begin(bob, "SELECT * FROM SAMPLE(cpu_usage, 1s)")
	queries := func(ws wire.Session) string {
		var of []string
		for _, row := range run(t, ws, "SHOW QUERIES").rows {
			of = append(of, row[2])
		}
		return strings.Join(of, "; ")
	}
	const alices, bobs = "SELECT * FROM SAMPLE(memory_usage, 1s)", "SELECT * FROM SAMPLE(cpu_usage, 1s)"
	for ws, want := range map[wire.Session]string{alice: alices, bob: bobs, root: alices + "; " + bobs} {
		if got := queries(ws); got != want {
			t.Errorf("SHOW QUERIES: %s, want %s", got, want)
		}
	}
	seen := run(t, alice, "SELECT statement FROM sys.queries").rows
	for _, row := range seen {
		if strings.Contains(row[0], "cpu_usage") {
			t.Errorf("sys.queries shows another user's: %v", row)
		}
	}
	if got := refusal(t, alice, "STOP 2"); !strings.Contains(got, "no query 2 is running") {
		t.Errorf("STOP of another's query: %s", got)
	}
	run(t, alice, "CREATE STREAM mine AS SELECT * FROM SAMPLE(memory_usage, 1s)")
	run(t, alice, "CREATE TRIGGER tr ON SAMPLE(memory_usage, 1h) WHEN used > 0 BEGIN NOTIFY 'x' END")
	for statement, want := range map[string]string{
		"DROP STREAM mine":       "there is no stream mine that CREATE STREAM made",
		"DROP STREAM alice.mine": "there is no stream alice.mine that CREATE STREAM made",
		"DROP TRIGGER alice.tr":  "there is no trigger alice.tr",
		"SELECT * FROM alice.tr": "there is no stream alice.tr",
		"DESCRIBE alice.mine":    "there is no stream alice.mine",
		"DROP STREAM nothing":    "there is no stream nothing that CREATE STREAM made",
		"CREATE STREAM \"alice.mine\" AS SELECT n FROM series(1)": "the name of a stream must not contain a dot",
	} {
		if got := refusal(t, bob, statement); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", statement, got, want)
		}
	}
	// A statement on another user's name fails with the same error as one on a name that does
	// not exist. Suggestions never contain names of other users.
	for _, statement := range []string{"DROP TRIGGER tr", "DROP STREAM tr", "SELECT * FROM tr", "DESCRIBE tr", "SELECT * FROM SAMPLE(tr, 1s)",
		"CREATE TRIGGER t ON tr WHEN activation > 0 BEGIN NOTIFY 'x' END", "CREATE STREAM s AS SELECT * FROM tr", "SELECT * FROM alice.tr", "DESCRIBE alice.tr"} {
		got, none := refusal(t, bob, statement), refusal(t, bob, strings.Replace(statement, "tr", "tz", 1))
		if strings.ReplaceAll(got, "tr", "tz") != strings.ReplaceAll(none, "tr", "tz") || strings.Contains(got, "did you mean tr") {
			t.Errorf("%s:\n%s\nand for a name that nobody has\n%s", statement, got, none)
		}
	}
	modeller := reader("alice")
	modeller.Models = true
	rival := reader("bob")
	rival.Models = true
	run(t, s.session(modeller), "CREATE MODEL mo AS SELECT AUTOMATON(n, 2) FROM series(3)")
	carol := s.session(rival)
	for statement, want := range map[string]string{
		"DROP MODEL mo":       "there is no model mo",
		"DROP MODEL mi":       "there is no model mi",
		"DROP MODEL alice.mo": "there is no model alice.mo",
	} {
		if got := refusal(t, carol, statement); !strings.Contains(got, want) || strings.Contains(got, "did you mean") {
			t.Errorf("%s: %s, want %s", statement, got, want)
		}
	}
	if rows := run(t, bob, "SHOW TRIGGERS").rows; len(rows) > 0 {
		t.Errorf("SHOW TRIGGERS of another user: %v", rows)
	}
	run(t, root, "DROP TRIGGER alice.tr")
	run(t, root, "DROP STREAM alice.mine")
	run(t, root, "STOP 1")
}

func TestLimits(t *testing.T) {
	s := newShop(t)
	g := reader("alice")
	g.Account = grant.NewAccount(grant.Limits{Sessions: 2, Queries: 2, Memory: 300 << 20})
	one, _ := s.session(g), s.session(g)
	if _, err := s.e.As(g).NewSession(t.Context(), wire.Options{}); err == nil || !strings.Contains(err.Error(), "you have 2 sessions; your limit is 2") {
		t.Errorf("a third session: %v", err)
	}
	first := start(t, one, "SELECT * FROM SAMPLE(memory_usage, 1s)")
	s.begin(one, "SELECT * FROM SAMPLE(cpu_usage, 1s)")
	if got := refusal(t, one, "SELECT * FROM SAMPLE(disk_usage, 1s)"); !strings.Contains(got, "you run 2 queries; your limit is 2") {
		t.Errorf("a third query: %s", got)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	join := "SELECT * FROM SAMPLE(cpu_usage, 1s) a WINDOW JOIN SAMPLE(memory_usage, 1s) b WINDOW 1s"
	if got := refusal(t, one, join); !strings.Contains(got, "your limit is 300 MiB") {
		t.Errorf("a query that may hold more: %s", got)
	}
	run(t, one, "SET join_memory = 1MiB")
	again := start(t, one, "SELECT * FROM SAMPLE(disk_usage, 1s)")
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if u := g.Account.Usage(); u.Queries != 1 || u.Sessions != 2 {
		t.Errorf("in use: %+v", u)
	}
}

// The memory of a user covers statements while they are parsed and planned, and symbols while
// they are read. Nothing stays charged.
func TestLimitOfMemoryBeforeQueries(t *testing.T) {
	g := &grant.Grant{User: "alice", Admin: true, Anywhere: true, Trace: true}
	g.Account = grant.NewAccount(grant.Limits{Memory: 64 << 20})
	s := newShop(t)
	alice := s.session(g)
	long := "SELECT * FROM series(1) WHERE n IN (1" + strings.Repeat(", 1234567", 100_000) + ")"
	if got := refusal(t, alice, long); !strings.Contains(got, "this statement may use") || !strings.Contains(got, "your limit is 64 MiB") {
		t.Errorf("a long statement: %s", got)
	}
	if _, err := alice.Describe(t.Context(), long); err == nil || !strings.Contains(err.Error(), "this statement may use") {
		t.Errorf("a long statement is prepared: %v", err)
	}
	run(t, alice, "SELECT * FROM series(1)")
	if got := refusal(t, alice, "SELECT * FROM"); !strings.Contains(got, "FROM needs a stream after it") {
		t.Errorf("a wrong statement: %s", got)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ws, err := s.e.As(g).NewSession(t.Context(), wire.Options{Exe: exe})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	for _, statement := range []string{"SHOW FUNCTIONS", "DESCRIBE FUNCTION main.main", "SELECT * FROM function_call WHERE function_name = 'main.main'"} {
		if got := refusal(t, ws, statement); !strings.Contains(got, "reading the symbols of the target may use") {
			t.Errorf("%s: %s", statement, got)
		}
	}
	if u := g.Account.Usage(); u.Memory != 0 {
		t.Errorf("%d bytes are still charged", u.Memory)
	}
	g.Account.Limit(grant.Limits{Memory: 4 << 30})
	run(t, alice, long)
	run(t, ws, "SHOW FUNCTIONS LIKE 'main.main'")
	if u := g.Account.Usage(); u.Memory != 0 {
		t.Errorf("%d bytes are charged at the end", u.Memory)
	}
}

// Every event beyond the rate is counted as lost.
func TestLimitOfEvents(t *testing.T) {
	seconds := 0
	testenv.Once(t, func() error {
		g := reader("alice")
		g.Account = grant.NewAccount(grant.Limits{Events: 20})
		alice := newShop(t).session(g)
		seconds++
		began := time.Now()
		a := run(t, alice, fmt.Sprintf("SELECT * FROM SAMPLE(memory_usage, 5ms) FOR %ds", seconds))
		u, most := g.Account.Usage(), 40+uint64(20*time.Since(began).Seconds())
		n := uint64(len(a.rows))
		if n != u.Events || n > most {
			t.Errorf("%d rows, %d events counted", n, u.Events)
		}
		var lost uint64
		for _, l := range a.summary.Losses {
			if l.Cause == "your limit of events per second" {
				lost = l.N
			}
		}
		if lost != u.Dropped {
			t.Errorf("lost %d, dropped %d", lost, u.Dropped)
		}
		if n < 20 || lost == 0 {
			return fmt.Errorf("%d rows, and %d beyond the limit", n, lost)
		}
		return nil
	})
}

// One user's probes are in their own processes, counted, and on record.
func TestTracersAndAudit(t *testing.T) {
	testenv.NeedUprobes(t)
	built := testenv.CompileCText(t, `#include <unistd.h>
__attribute__((noinline)) int work(int i) { __asm__ volatile(""); return i + 1; }
int main(void) { volatile int s = 0; for (;;) { s = work(s); usleep(1000); } }`, "-O1")
	dir, err := os.MkdirTemp("", "permit")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program := filepath.Join(dir, "es-permit")
	for _, err := range []error{os.Chmod(dir, 0o755), os.Rename(built, program), os.Chmod(program, 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	runAs := func(uid uint32) int {
		cmd := exec.Command(program)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		return cmd.Process.Pid
	}
	alices, bobs := runAs(aliceUID), runAs(bobUID)
	testenv.AwaitSleep(t, alices) // then they are at work
	testenv.AwaitSleep(t, bobs)

	var log testenv.Buffer
	s := newShop(t)
	g := tracer("alice", aliceUID, false)
	g.Account = grant.NewAccount(grant.Limits{Probes: 2})
	g.Audit = grant.Logger(slog.New(slog.NewJSONHandler(&log, nil)), "user", "alice")
	alice := s.session(g)
	attempts := 0 // each is on record
	for stream, condition := range map[string]string{"function_duration": " AND function_name = 'work'",
		"SAMPLE(stack_sample, 20ms)": "", "SAMPLE(process_usage, 20ms)": "", "SAMPLE(thread_usage, 20ms)": ""} {
		var rows [][]string
		ms := 0
		testenv.Once(t, func() error {
			attempts++
			ms += 300
			rows = run(t, alice, fmt.Sprintf("SELECT DISTINCT pid FROM %s WHERE process = 'es-permit'%s FOR %dms", stream, condition, ms)).rows
			if len(rows) == 0 {
				return errors.New(stream + ": no rows")
			}
			return nil
		})
		if diff := cmp.Diff([][]string{{fmt.Sprint(alices)}}, rows); diff != "" {
			t.Errorf("%s: %s", stream, diff)
		}
	}
	// What is told of entities comes from probes, too: of who may observe everybody, but
	// not probe files, they are in each of the processes.
	sees := tracer("carol", aliceUID, false)
	sees.Viewer.Any = true
	carol := s.session(sees)
	e := run(t, carol, "SELECT DISTINCT pid FROM entity_events WHERE process = 'es-permit' AND category = 'INVOCATION' FOR 1s")
	for _, row := range e.rows {
		if row[0] != fmt.Sprint(alices) && row[0] != fmt.Sprint(bobs) {
			t.Errorf("entity_events: pids seen: %v, want none but %d and %d", e.rows, alices, bobs)
		}
	}
	run(t, carol, "SELECT * FROM activity_events WHERE process = 'es-permit' FOR 100ms")
	hidden := refusal(t, alice, fmt.Sprintf("SELECT * FROM function_start WHERE pid = %d AND function_name = 'work'", bobs))
	if !strings.Contains(hidden, fmt.Sprintf("there is no process %d", bobs)) {
		t.Errorf("another user's process: %s", hidden)
	}
	s.begin(alice, fmt.Sprintf("SELECT * FROM function_start WHERE pid = %d AND function_name = 'work'", alices))
	many := refusal(t, alice, fmt.Sprintf("SELECT * FROM function_start WHERE pid = %d AND function_name IN (main, work)", alices))
	if !strings.Contains(many, "your limit is 2, of which") {
		t.Errorf("too many probes: %s", many)
	}
	// What waits for a trigger is attached, and counts.
	var before int
	testenv.Until(t, "the first query is gone", func() bool {
		u := g.Account.Usage()
		before = u.Probes
		return u.Queries == 1
	})
	g.Account.Limit(grant.Limits{Probes: before + 1})
	run(t, alice, fmt.Sprintf("CREATE TRIGGER waits ON SAMPLE(memory_usage, 1h) WHEN TRUE BEGIN SELECT COUNT(*) FROM function_start WHERE pid = %d AND function_name = 'work' END", alices))
	if n := g.Account.Usage().Probes; n != before+1 {
		t.Errorf("%d probes are in use beside a trigger that waits, want %d", n, before+1)
	}
	if many := refusal(t, alice, fmt.Sprintf("SELECT COUNT(*) FROM function_start WHERE pid = %d AND function_name = 'main'", alices)); !strings.Contains(many, "are in use") {
		t.Errorf("beside a trigger that waits: %s", many)
	}
	run(t, alice, "DROP TRIGGER waits")
	if n := g.Account.Usage().Probes; n != before {
		t.Errorf("%d probes are in use when the trigger is gone, want %d", n, before)
	}

	testenv.Until(t, "all ends are on record", func() bool { return strings.Count(log.String(), `"msg":"ended"`) > attempts })
	var actions []string
	for line := range strings.Lines(log.String()) {
		var r struct {
			Msg, User, Statement, Error string
			PIDs                        []int
			Functions                   []string
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		actions = append(actions, r.Msg)
		if r.User != "alice" || r.Msg != "ended" && r.Statement == "" || r.Msg == "refused" && r.Error == "" {
			t.Errorf("a record: %s", line)
		}
		if (r.Msg == "armed" && len(r.Functions) > 0 || r.Msg == "standing by") && (len(r.PIDs) != 1 || r.PIDs[0] != alices || len(r.Functions) != 1 || r.Functions[0] != "work") {
			t.Errorf("armed where: %s", line)
		}
	}
	slices.Sort(actions) // when a query has ended is not when its result has
	want := slices.Concat(slices.Repeat([]string{"armed"}, attempts+2), slices.Repeat([]string{"ended"}, attempts+1),
		[]string{"executed", "executed", "refused", "refused", "refused", "standing by"})
	if diff := cmp.Diff(want, actions); diff != "" {
		t.Errorf("on record: %s", diff)
	}
}

package server_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"endoscope/server/grant"
	"endoscope/server/wire"
)

// What a definition says is told to nobody but whoever made it, and those who rule
// over all, by no statement.
func TestDefinitionsAreTheirOwners(t *testing.T) {
	s := newShop(t)
	modeller := reader("alice")
	modeller.Models = true
	alice, bob := s.session(modeller), s.session(reader("bob"))
	root := s.session(&grant.Grant{User: "root", Admin: true, Trace: true})
	for _, statement := range []string{
		"CREATE STREAM secrets AS SELECT timestamp, used FROM SAMPLE(memory_usage, 10ms) WHERE 'the-secret' <> ''",
		"CREATE TRIGGER secret_trigger ON SAMPLE(memory_usage, 1h) WHEN used > 0 BEGIN NOTIFY 'the-secret' END",
		"CREATE MODEL secret_model AS SELECT AUTOMATON(n % 3) FROM series(9) WHERE 'the-secret' <> ''",
	} {
		run(t, alice, statement)
	}
	t.Cleanup(func() { start(t, root, "DROP TRIGGER alice.secret_trigger").Close() })
	qualified := strings.NewReplacer("secrets", "alice.secrets", "DESCRIBE secret_", "DESCRIBE alice.secret_", "'secret_model'", "'alice.secret_model'")
	all := func(ws wire.Session, statement string) string {
		r, err := ws.Execute(context.Background(), statement)
		if err != nil {
			return err.Error()
		}
		a := read(t, r)
		return fmt.Sprint(a.rows, a.notices)
	}
	told := func(ws wire.Session, as func(string) string) (text string) {
		for _, statement := range []string{"SHOW STREAMS", "SHOW TRIGGERS", "SHOW MODELS", "DESCRIBE secrets", "DESCRIBE secret_trigger", "DESCRIBE secret_model",
			"EXPLAIN SELECT * FROM secrets", "SELECT * FROM secrets LIMIT 1", "SELECT nope FROM secrets", "SELECT * FROM secret", "DROP MODEL secret_mode",
			"EXPLAIN SELECT CONFORMS(n % 3, 'secret_model') FROM series(3)", "DESCRIBE secret"} {
			text += all(ws, as(statement)) + "\n"
		}
		for _, kind := range []string{"stream", "trigger", "model"} {
			text += strings.Join(ws.Complete(t.Context(), kind, "", ""), " ")
		}
		return text
	}
	plain := func(s string) string { return s }
	for _, as := range []func(string) string{plain, qualified.Replace} {
		if got := told(bob, as); strings.Contains(got, "the-secret") || strings.Contains(got, "did you mean secret") || strings.Contains(got, "did you mean alice") {
			t.Errorf("another user is told\n%s", got)
		}
	}
	for name, ws := range map[string]wire.Session{"alice": alice, "root": root} {
		as := plain
		if name == "root" {
			as = qualified.Replace
		}
		if got := told(ws, as); strings.Count(got, "the-secret") < 5 || !strings.Contains(got, "secrets") {
			t.Errorf("%s is told\n%s", name, got)
		}
		if got := run(t, ws, as("SELECT used > 0 FROM secrets LIMIT 1")).rows; len(got) != 1 || got[0][0] != "true" {
			t.Errorf("%s gets %v", name, got)
		}
	}
}

// Each user has names of their own: what others have defined can neither be told from
// errors nor stands in the way. Who may see others names theirs with the owner.
func TestNamesAreTheirOwners(t *testing.T) {
	s := newShop(t)
	user := func(name string, admin bool) wire.Session {
		return s.session(&grant.Grant{User: name, Models: true, Admin: admin})
	}
	alice, bob, root := user("alice", false), user("bob", false), user("root", true)
	// Each defines the same names, with a number of their own in it.
	sessions := map[string]wire.Session{"alice": alice, "bob": bob, "root": root}
	for i, owner := range []string{"alice", "bob", "root"} {
		ws := sessions[owner]
		for _, statement := range []string{
			fmt.Sprintf("CREATE STREAM base AS SELECT n + %d00 AS v FROM series(1)", i+1),
			"CREATE OR REPLACE STREAM own AS SELECT v FROM base",
			"CREATE TRIGGER own_trigger ON SAMPLE(memory_usage, 1h) WHEN used > 0 BEGIN NOTIFY 'x' END",
			"CREATE OR REPLACE TRIGGER own_trigger ON SAMPLE(memory_usage, 1h) WHEN used > 0 BEGIN NOTIFY '" + owner + "' END",
			fmt.Sprintf("CREATE MODEL own_model AS SELECT AUTOMATON(n %% %d) FROM series(9)", i+2),
			fmt.Sprintf("CREATE OR REPLACE MODEL own_model AS SELECT AUTOMATON(n %% %d) FROM series(9)", i+2),
			"CREATE STREAM conforming AS SELECT CONFORMS(n % 3, own_model) AS c FROM series(9)",
		} {
			run(t, ws, statement)
		}
	}
	t.Cleanup(func() {
		for _, statement := range []string{"DROP TRIGGER alice.own_trigger", "DROP TRIGGER own_trigger"} {
			run(t, root, statement)
		}
	})
	one := func(ws wire.Session, statement string) string {
		t.Helper()
		rows := run(t, ws, statement).rows
		if len(rows) != 1 || len(rows[0]) != 1 {
			t.Fatalf("%s: %v", statement, rows)
		}
		return rows[0][0]
	}
	for i, owner := range []string{"alice", "bob", "root"} {
		want := fmt.Sprintf("%d01", i+1)
		conforms := fmt.Sprint(owner == "bob") // only a model of n % 3
		// A name in a definition is its owner's, whoever uses it.
		for _, c := range []struct {
			ws     wire.Session
			prefix string
		}{{sessions[owner], ""}, {sessions[owner], owner + "."}, {root, owner + "."}, {root, `"` + owner + `".`}} {
			if got := one(c.ws, "SELECT v FROM "+c.prefix+"own"); got != want {
				t.Errorf("%sown has %s, want %s", c.prefix, got, want)
			}
			if got := one(c.ws, "SELECT c FROM "+c.prefix+"conforming"); got != conforms {
				t.Errorf("%sconforming is %s, want %s", c.prefix, got, conforms)
			}
		}
		if got := one(root, "SELECT statement FROM sys.triggers WHERE trigger = 'own_trigger' AND owner = '"+owner+"'"); !strings.Contains(got, "NOTIFY '"+owner+"'") {
			t.Errorf("the trigger of %s: %s", owner, got)
		}
		if got := one(root, "SELECT CONFORMS(n % 3, '"+owner+".own_model') FROM series(9)"); got != conforms {
			t.Errorf("the model of %s: %s, want %s", owner, got, conforms)
		}
	}
	// Lists have the owner for those who may see several.
	for _, c := range []struct {
		what string
		rows int // of one owner
	}{{"SHOW STREAMS LIKE 'own%'", 2}, {"SHOW TRIGGERS LIKE 'own%'", 1}, {"SHOW MODELS LIKE 'own%'", 1}} {
		var owners []string
		a := run(t, root, c.what)
		for _, row := range a.rows {
			owners = append(owners, row[len(row)-1])
		}
		slices.Sort(owners)
		if want := slices.Repeat([]string{"alice", "bob", "root"}, c.rows); !slices.Equal(owners, slices.Sorted(slices.Values(want))) {
			t.Errorf("%s: of %v, want %v", c.what, owners, want)
		}
		if rows := run(t, bob, c.what).rows; len(rows) != c.rows || slices.Contains(rows[0], "bob") || len(rows[0]) != len(a.rows[0])-1 {
			t.Errorf("%s: bob gets %v", c.what, rows)
		}
	}
	for kind, want := range map[string]string{"trigger": "alice.own_trigger bob.own_trigger own_trigger", "model": "alice.own_model bob.own_model own_model"} {
		if got := strings.Join(root.Complete(t.Context(), kind, "", ""), " "); got != want {
			t.Errorf("completed: %s, want %s", got, want)
		}
	}
	// An admin who leaves out the owner is told.
	run(t, root, "DROP STREAM own")
	for statement, want := range map[string]string{
		"SELECT v FROM own": "did you mean alice.own or bob.own?",
		"DROP STREAM own":   "did you mean alice.own or bob.own?",
	} {
		if got := refusal(t, root, statement); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", statement, got, want)
		}
	}
	if got := one(alice, "SELECT v FROM own"); got != "101" {
		t.Errorf("alice's stream has %s after root's was dropped", got)
	}
	for _, statement := range []string{"DROP STREAM bob.own", "DROP TRIGGER bob.own_trigger", "DROP MODEL bob.own_model"} {
		run(t, root, statement)
		if got := refusal(t, root, statement); !strings.Contains(got, "there is no") {
			t.Errorf("%s again: %s", statement, got)
		}
	}
	if got := refusal(t, bob, "SELECT v FROM own"); !strings.Contains(got, "there is no stream own") || strings.Contains(got, "alice") {
		t.Errorf("bob's stream: %s", got)
	}
}

// Of many who create a stream of one name, one does.
func TestOneOfManyDefines(t *testing.T) {
	s := newShop(t)
	var made atomic.Int64
	var all sync.WaitGroup
	sessions := make([]wire.Session, 8)
	for i := range sessions {
		sessions[i] = s.session(nil)
	}
	for i, ws := range sessions {
		all.Go(func() {
			r, err := ws.Execute(context.Background(), fmt.Sprintf("CREATE STREAM one AS SELECT n + %d AS m FROM series(1)", i))
			if err == nil {
				made.Add(1)
				r.Close()
			} else if !strings.Contains(err.Error(), "there is a stream one already") {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if made.Load() != 1 {
		t.Errorf("%d have made it", made.Load())
	}
}

// Streams that are made of streams twice each, and so on, stand for more sources
// than anybody waits for: that is said, at the name that the user wrote.
func TestStreamsThatDouble(t *testing.T) {
	ws := newShop(t).session(nil)
	run(t, ws, "CREATE STREAM d0 AS SELECT timestamp, used FROM SAMPLE(memory_usage, 1s)")
	n := 0
	for ; ; n++ {
		statement := fmt.Sprintf("CREATE STREAM d%d AS SELECT timestamp, used FROM d%d UNION ALL SELECT timestamp, used FROM d%d", n+1, n, n)
		r, err := ws.Execute(context.Background(), statement)
		if err != nil {
			if want := "expands to more than 1000 sources"; !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), statement) {
				t.Errorf("%v", err)
			}
			break
		}
		r.Close()
	}
	if n != 8 {
		t.Errorf("2^%d sources are too many", n)
	}
	// And within one statement.
	text := "WITH c0 AS (SELECT n FROM series(1))"
	for i := range 12 {
		text += fmt.Sprintf(", c%d AS (SELECT n FROM c%d UNION ALL SELECT n FROM c%d)", i+1, i, i)
	}
	if got := refusal(t, ws, text+" SELECT n FROM c12"); !strings.Contains(got, "expands to more than 1000 sources") {
		t.Error(got)
	}
	if got := run(t, ws, "SELECT n FROM series(1)").rows; !slices.EqualFunc(got, [][]string{{"1"}}, slices.Equal) {
		t.Errorf("%v", got)
	}
}

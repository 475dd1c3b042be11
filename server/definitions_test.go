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
	t.Cleanup(func() { start(t, root, "DROP TRIGGER secret_trigger").Close() })
	all := func(ws wire.Session, statement string) string {
		r, err := ws.Execute(context.Background(), statement)
		if err != nil {
			return err.Error()
		}
		a := read(t, r)
		return fmt.Sprint(a.rows, a.notices)
	}
	told := func(ws wire.Session) (text string) {
		for _, statement := range []string{"SHOW STREAMS", "SHOW TRIGGERS", "SHOW MODELS", "DESCRIBE secrets", "DESCRIBE secret_trigger", "DESCRIBE secret_model",
			"EXPLAIN SELECT * FROM secrets", "SELECT * FROM secrets LIMIT 1", "SELECT nope FROM secrets", "SELECT * FROM secret", "DROP MODEL secret_mode",
			"EXPLAIN SELECT CONFORMS(n % 3, 'secret_model') FROM series(3)", "DESCRIBE secret"} {
			text += all(ws, statement) + "\n"
		}
		for _, kind := range []string{"stream", "trigger", "model"} {
			text += strings.Join(ws.Complete(t.Context(), kind, "", ""), " ")
		}
		return text
	}
	if got := told(bob); strings.Contains(got, "the-secret") || strings.Contains(got, "did you mean secret") {
		t.Errorf("another user is told\n%s", got)
	}
	for name, ws := range map[string]wire.Session{"alice": alice, "root": root} {
		if got := told(ws); strings.Count(got, "the-secret") < 5 || !strings.Contains(got, "secrets") {
			t.Errorf("%s is told\n%s", name, got)
		}
		if got := run(t, ws, "SELECT used > 0 FROM secrets LIMIT 1").rows; len(got) != 1 || got[0][0] != "true" {
			t.Errorf("%s gets %v", name, got)
		}
	}
	// The name is taken all the same, and who has it is not said.
	for _, statement := range []string{"CREATE STREAM secrets AS SELECT n FROM series(1)", "CREATE OR REPLACE STREAM secrets AS SELECT n FROM series(1)"} {
		if got := refusal(t, bob, statement); !strings.Contains(got, "the name secrets is taken") {
			t.Errorf("%s: %s", statement, got)
		}
	}
	if got := refusal(t, bob, "CREATE TRIGGER secrets ON SAMPLE(memory_usage, 1h) WHEN used > 0 BEGIN NOTIFY 'x' END"); strings.Contains(got, "the-secret") {
		t.Error(got)
	}
}

// Who rules over others does not take over what they have defined by replacing it:
// it stays theirs, as it was, until it is dropped.
func TestDefinitionsStayTheirOwners(t *testing.T) {
	s := newShop(t)
	modeller := reader("alice")
	modeller.Models = true
	alice := s.session(modeller)
	root := s.session(&grant.Grant{User: "root", Admin: true, Trace: true, Models: true})
	engine := s.session(nil)
	define := map[string]string{
		"stream":  "CREATE OR REPLACE STREAM own AS SELECT n FROM series(1)",
		"trigger": "CREATE OR REPLACE TRIGGER own_trigger ON SAMPLE(memory_usage, 1h) WHEN used > 0 BEGIN NOTIFY 'x' END",
		"model":   "CREATE OR REPLACE MODEL own_model AS SELECT AUTOMATON(n % 3) FROM series(9)",
	}
	for kind, statement := range define {
		run(t, alice, statement)
		run(t, alice, statement)
		for _, ws := range []wire.Session{root, engine} {
			if got := refusal(t, ws, statement); !strings.Contains(got, "is that of user alice") || !strings.Contains(got, "DROP "+strings.ToUpper(kind)) {
				t.Errorf("%s: %s", statement, got)
			}
		}
		name := strings.TrimSuffix("own_"+kind, "_stream")
		run(t, root, "DROP "+strings.ToUpper(kind)+" "+name)
		run(t, root, statement)
		if got := refusal(t, alice, "DROP "+strings.ToUpper(kind)+" "+name); got == "" {
			t.Errorf("alice drops the %s of root", kind)
		}
	}
	run(t, root, "DROP TRIGGER own_trigger")
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

package server_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"endoscope/planner/plan"
	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/wire"
)

// running is a journal: the statements that are being executed.
type running struct {
	mu  sync.Mutex
	all []string
}

func (r *running) Begin(user, statement string) (func(), error) {
	if strings.Contains(statement, "'denied'") {
		return nil, plan.Errorf(-1, -1, "this statement is refused").WithHint("wait")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, user+": "+statement)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all = slices.Delete(r.all, slices.Index(r.all, user+": "+statement), slices.Index(r.all, user+": "+statement)+1)
	}, nil
}

func (r *running) Greeting() string { return "restarted" }

func (r *running) has(statements ...string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := slices.Sorted(slices.Values(r.all))
	slices.Sort(statements)
	return slices.Equal(got, statements)
}

// Statements are in the journal as long as they, and the triggers that they have made,
// run. What the journal refuses is not executed.
func TestJournal(t *testing.T) {
	j := &running{}
	e, err := server.New(server.Options{ModelDir: t.TempDir(), Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	greeted := ""
	ws, err := e.As(reader("alice")).NewSession(t.Context(), wire.Options{Notify: func(text string) { greeted = text }})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	if greeted != "restarted" {
		t.Errorf("greeted with %q", greeted)
	}
	const endless, trigger = "SELECT used FROM SAMPLE(memory_usage, 10ms)", "CREATE TRIGGER tr ON SAMPLE(memory_usage, 1h) WHEN used > 0 BEGIN NOTIFY 'x' END"
	run(t, ws, trigger)
	r := start(t, ws, endless)
	refusal(t, ws, "SELECT nonsense FROM series(1)")
	if _, err := ws.Describe(t.Context(), "SELECT n FROM series(1)"); err != nil {
		t.Error(err)
	}
	run(t, ws, "SELECT n FROM series(1)")
	testenv.Until(t, "the statements that have ended are not in it", func() bool { return j.has("alice: "+endless, "alice: "+trigger) })
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "the query is not in it", func() bool { return j.has("alice: " + trigger) })
	run(t, ws, "DROP TRIGGER tr")
	testenv.Until(t, "the trigger is not in it", func() bool { return j.has() })
	for _, statement := range []string{"SELECT n FROM series(1) WHERE 'denied' <> ''", "CREATE STREAM s AS SELECT n FROM series(1) WHERE 'denied' <> ''"} {
		if got := refusal(t, ws, statement); !strings.Contains(got, "this statement is refused") || !strings.Contains(got, "^") || !strings.Contains(got, "hint: wait") {
			t.Errorf("%s: %s", statement, got)
		}
	}
	if _, err := ws.Describe(t.Context(), "SELECT 'denied' FROM series(1)"); err == nil || !strings.Contains(err.Error(), "this statement is refused") {
		t.Errorf("described: %v", err)
	}
	refusal(t, ws, "DESCRIBE s")
}

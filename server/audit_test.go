package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/grant"
)

// Statements are put on record by what they are, however their text is written.
func TestAuditClassifiesParsedStatements(t *testing.T) {
	s := newShop(t)
	trigger := "CREATE TRIGGER t ON SAMPLE(memory_usage, 10s) WHEN used < 0 BEGIN NOTIFY 'x' END"
	for _, c := range []struct {
		before, statement string
		want              string // message and kind, or "": not on record
	}{
		{"", "-- hi\nCREATE STREAM v AS SELECT * FROM cpu_usage", "executed CREATE STREAM"},
		{"", "create/**/stream/**/v AS SELECT * FROM cpu_usage", "executed CREATE STREAM"},
		{"CREATE STREAM v AS SELECT * FROM cpu_usage", "-- hi\nDROP STREAM v", "executed DROP STREAM"},
		{"CREATE STREAM v AS SELECT * FROM cpu_usage", "DROP/**/STREAM v;", "executed DROP STREAM"},
		{trigger, "-- hi\nDROP TRIGGER t", "executed DROP TRIGGER"},
		{trigger, "DROP/**/TRIGGER t", "executed DROP TRIGGER"},
		{trigger, "drop\n-- hi\n trigger t", "executed DROP TRIGGER"},
		{"", "/* hi */ suspend", "executed SUSPEND"},
		{"", "RESUME/**/THREAD 'a'", "executed RESUME"},
		{"", "DROP STREAM v", "refused"},
		{"", "SHOW STREAMS; DROP STREAM v", "refused"},
		{"CREATE STREAM v AS SELECT * FROM cpu_usage", "DROP STREAM v; SHOW STREAMS", "refused"},
		{"", "DROP THE STREAM v", "refused"},
		{"", "no statement at all", "refused"},
		{"", "SET lateness = 1s", ""},
		{"", "/* DROP STREAM v */ SHOW STREAMS", ""},
		{"", "DESCRIBE cpu_usage", ""},
	} {
		var log testenv.Buffer
		prepare := s.session(reader("alice"))
		g := reader("alice")
		g.Audit = grant.Logger(slog.New(slog.NewJSONHandler(&log, nil)), "user", "alice")
		alice := s.session(g)
		if c.before != "" {
			run(t, prepare, c.before)
		}
		if c.want == "refused" {
			refusal(t, alice, c.statement)
		} else {
			run(t, alice, c.statement)
		}
		var r struct{ Msg, Kind, Statement, Error string }
		if line := log.String(); line != "" {
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			if r.Statement != c.statement {
				t.Errorf("%q: the statement on record is %q", c.statement, r.Statement)
			}
			if (r.Error != "") != (r.Msg == "refused") {
				t.Errorf("%q: on record with error %q", c.statement, r.Error)
			}
		}
		if got := strings.TrimSpace(fmt.Sprint(r.Msg, " ", r.Kind)); got != c.want {
			t.Errorf("%q: %q is on record, want %q", c.statement, got, c.want)
		}
		for _, drop := range []string{"DROP STREAM v", "DROP TRIGGER t"} { // whatever is left
			if r, err := prepare.Execute(t.Context(), drop); err == nil {
				r.Close()
			}
		}
		prepare.Close()
	}
}

// A user who writes too much to the audit log waits before a statement, which is then
// executed, and recorded.
func TestStatementsWaitForTheAuditLog(t *testing.T) {
	log := &testenv.Buffer{}
	g := reader("alice")
	g.Account = grant.NewAccount(grant.Limits{Log: 1})
	g.Audit = grant.Logger(slog.New(slog.NewTextHandler(log, nil)))
	ws := newShop(t).session(g)
	run(t, ws, "CREATE STREAM s1 AS SELECT * FROM cpu_usage")
	waiting := make(chan error, 1)
	go func() {
		r, err := ws.Execute(t.Context(), "CREATE STREAM s2 AS SELECT * FROM cpu_usage")
		if err == nil {
			err = r.Close()
		}
		waiting <- err
	}()
	gaveUp, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ws.Execute(gaveUp, "CREATE STREAM s3 AS SELECT * FROM cpu_usage"); err == nil {
		t.Error("it did not wait")
	}
	select {
	case err := <-waiting:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	g.Account.Limit(grant.Limits{Log: 1 << 30})
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
	if got := log.String(); strings.Count(got, "msg=executed") != 2 || !strings.Contains(got, "STREAM s1") || !strings.Contains(got, "STREAM s2") {
		t.Errorf("on record:\n%s", got)
	}
}

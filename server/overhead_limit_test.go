package server_test

import (
	"fmt"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/grant"
	"endoscope/server/wire"
)

// TestOverheadOfAUser: a user's limit is the maximum and the default of the overhead, and what
// cannot be estimated is refused.
func TestOverheadOfAUser(t *testing.T) {
	g := &grant.Grant{User: "alice", Admin: true, Trace: true, Anywhere: true, Account: grant.NewAccount(grant.Limits{Overhead: 0.02})}
	ws := newShop(t).session(g)
	shown := func() string { return run(t, ws, "SHOW SETTINGS LIKE 'overhead'").rows[0][1] }
	if got := shown(); got != "2" {
		t.Errorf("the default is %s", got)
	}
	for statement, want := range map[string]string{
		"SET overhead = 3%": "overhead lies between 0% and 2%, your limit, and is not 0",
		"SET overhead = 0%": "overhead lies between 0% and 2%, your limit, and is not 0",
		"SELECT COUNT(*) FROM function_start WHERE pid = 1 WITHIN OVERHEAD 3%":                                          "the overhead must not be more than 2%, your limit",
		"SELECT n FROM (SELECT duration AS n FROM function_duration WHERE pid = 1)":                                     "your limit is an overhead of 2%, and this observes each call of function_duration",
		"SELECT COUNT(*) FROM allocation WHERE pid = 1":                                                                 "allocation cannot be estimated",
		"CREATE TRIGGER t ON function_duration WHEN pid = 1 AND duration > 1s BEGIN NOTIFY 'slow' END":                  "your limit is an overhead of 2%, and this observes each call of function_duration",
		"CREATE EXPORT e TO PROMETHEUS WITH (exact => TRUE) AS SELECT COUNT(*) FROM function_start WHERE pid = 1":       "your limit is an overhead of 2%, and this observes each call of function_start",
		"SELECT COUNT(*) FROM function_start a WINDOW JOIN function_start b WITHIN 1s WHERE a.pid = 1 AND b.pid = 1":    "your limit is an overhead of 2%, and this observes each call of function_start",
		"SELECT COUNT(*) FROM SAMPLE(memory_usage, 1s) a WINDOW JOIN function_start b WITHIN 1s WHERE b.pid = 1":        "your limit is an overhead of 2%, and this observes each call of function_start",
		"SELECT COUNT(*) FROM function_start WHERE pid = 1 UNION ALL SELECT COUNT(*) FROM function_start WHERE pid = 1": "the parts of a UNION cannot be estimated together",
	} {
		if got := refusal(t, ws, statement); !strings.Contains(got, want) {
			t.Errorf("%s: %s", statement, got)
		}
	}
	run(t, ws, "SET overhead = 1%")
	if got := shown(); got != "1" {
		t.Errorf("it is %s", got)
	}
	if a := run(t, ws, "SELECT COUNT(*) > 0 FROM SAMPLE(memory_usage, 10ms) FOR 50ms"); len(a.rows) != 1 {
		t.Errorf("what is no call has no overhead: %v", a.rows)
	}
}

// TestOverheadOfQueriesOfAUser: the queries of a user share the limit.
func TestOverheadOfQueriesOfAUser(t *testing.T) {
	testenv.NeedUprobes(t)
	c := startCounter(t)
	g := &grant.Grant{User: "alice", Admin: true, Trace: true, Anywhere: true, Account: grant.NewAccount(grant.Limits{Overhead: 0.1})}
	ws := newShop(t).session(g)
	statement := fmt.Sprintf("SELECT function_name, COUNT(*) FROM function_start WHERE pid = %d AND function_name IN (hot, rare) GROUP BY function_name", c.pid)
	all := []wire.Result{start(t, ws, statement), start(t, ws, statement+" WITHIN OVERHEAD 8%")}
	c.turn(100_000)
	if n := g.Account.Usage().Budgets; n != len(all) {
		t.Errorf("%d queries are within an overhead", n)
	}
	for _, r := range all {
		r.Stop()
	}
	for i, r := range all {
		a := read(t, r)
		complete(t, a)
		notes := strings.Join(a.summary.Notes, "\n")
		t.Log(notes)
		if i == 0 && !strings.Contains(notes, "of 5 % allowed") {
			t.Errorf("the footer does not say that each query may take half of the limit: %s", notes)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := g.Account.Usage().Budgets; n != 0 {
		t.Errorf("%d queries are within an overhead that have ended", n)
	}
}

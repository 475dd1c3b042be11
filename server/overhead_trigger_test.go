package server_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// TestOverheadOfTrigger: the condition of a trigger sees the estimates of its sub-query, and
// their bounds, as a SELECT of it has them.
func TestOverheadOfTrigger(t *testing.T) {
	testenv.NeedUprobes(t)
	c := startCounter(t)
	var h heard
	s := newSession(t, wire.Options{PID: c.pid, Notify: h.add})
	run(t, s, `CREATE TRIGGER often ON (SELECT function_name, COUNT(*) AS n, exact(COUNT(*)) AS known FROM function_start
		WHERE function_name IN (hot, warm, rare, never) GROUP BY function_name EMIT EVERY 1s WITHIN OVERHEAD 10%)
		WHEN n > 20000 BEGIN NOTIFY 'often' END`)
	var truth map[string]int64
	testenv.Until(t, "hot activates the trigger, and the overhead is known", func() bool {
		truth = c.turn(50_000)
		return len(h.all()) > 0 && triggerColumn(t, s, "often", "overhead") != "NULL"
	})
	overhead, err := strconv.ParseFloat(triggerColumn(t, s, "often", "overhead"), 64)
	if err != nil || overhead <= 0 || overhead > 100 {
		t.Errorf("the overhead is %v %% (%v)", overhead, err)
	}
	c.in.Close() // its end is that of the trigger
	seen := map[string]map[string]any{}
	for _, r := range triggered(t, s).rows {
		var row map[string]any
		if err := json.Unmarshal([]byte(r[4]), &row); err != nil {
			t.Fatalf("%s: %v", r[4], err)
		}
		seen[fmt.Sprint(row["function_name"])] = row
	}
	t.Logf("overhead %.2g %%", overhead)
	row := seen["hot"]
	if row == nil {
		t.Fatalf("hot has not activated the trigger: %v", seen)
	}
	text := func(column string) string {
		if x, ok := row[column].(float64); ok {
			return strconv.FormatFloat(x, 'f', -1, 64)
		}
		return "NULL"
	}
	within(t, "hot", row["known"] == true, text("n"), text("low(n)"), text("high(n)"), truth["hot"])
	if row["known"] == true {
		t.Errorf("hot is exact: %v", row)
	}
	if row := seen["rare"]; row != nil {
		t.Errorf("rare was called %d times and has activated the trigger: %v", truth["rare"], row)
	}
}

// TestOverheadOfSubquery: what is computed from the estimates of a sub-query has their bounds.
func TestOverheadOfSubquery(t *testing.T) {
	testenv.NeedUprobes(t)
	c := startCounter(t)
	s := newSession(t, wire.Options{PID: c.pid})
	res := start(t, s, `SELECT function_name, n * 2 AS twice, exact(n) FROM (SELECT function_name, COUNT(*) AS n FROM function_start
		WHERE function_name IN (hot, warm, rare) GROUP BY function_name WITHIN OVERHEAD 10%) WHERE low(n) > 0`)
	truth := c.turn(200_000)
	res.Stop()
	a := read(t, res)
	complete(t, a)
	if len(a.rows) != len(truth) {
		t.Errorf("%d functions, of %d that were called: %v", len(a.rows), len(truth), a.rows)
	}
	for _, r := range a.rows {
		within(t, r[0], r[2] == "true", r[1], r[3], r[4], 2*truth[r[0]])
	}
}

package server_test

import (
	"testing"

	"endoscope/server/wire"
)

// TestJoinOfAStreamWithItself: a call that both sides of a join may have has one time.
// It lies in a window of nothing with itself, and does not follow itself, whichever
// side's probe would have read the clock first.
func TestJoinOfAStreamWithItself(t *testing.T) {
	const joined = "SELECT COUNT(*) FROM function_start a WINDOW JOIN function_start b "
	const calls = " ON a.arg0 = b.arg0 AND a.arg1 = b.arg1 WHERE a.function_name = 'work' AND b.function_name "
	pid, run := rounds(t)
	var results []wire.Result
	cases := []struct{ text, want string }{
		{joined + "WINDOW 1min b FOLLOWED BY a" + calls + "IN ('work', 'request')", "0"},
		{joined + "WINDOW 1min a FOLLOWED BY b" + calls + "IN ('work', 'request')", "12"}, // request(round, kind) behind work(round, kind)
		{joined + "WINDOW 1min b FOLLOWED BY a" + calls + "= 'work' AND a.arg1 > 7", "0"},
		{joined + "WINDOW 1min a FOLLOWED BY b" + calls + "= 'work' AND b.arg1 > 7", "0"},
		{joined + "WINDOW 0s" + calls + "LIKE 'w%' AND a.arg1 > 7 AND b.arg1 < 10", "24"},
		{joined + "WINDOW 0s" + calls + "= 'work' AND a.tid > 0 AND a.arg1 < 2", "24"},
	}
	for _, c := range cases {
		results = append(results, start(t, newSession(t, wire.Options{PID: pid}), c.text))
	}
	run()
	for i, c := range cases {
		a := read(t, results[i])
		complete(t, a)
		if len(a.rows) != 1 || a.rows[0][0] != c.want {
			t.Errorf("%s\ngave %v, want %s", c.text, a.rows, c.want)
		}
	}
}

package server_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// TestErrorWithinEndsQuery: a query ends by itself when its results are known well enough, and
// what was called meanwhile is within the bounds.
func TestErrorWithinEndsQuery(t *testing.T) {
	testenv.NeedUprobes(t)
	// Functions begin with a push, which the kernel emulates: the price of a hit is small, and also where
	// a trap takes 5 us it is much less than a turn.
	c := startProgram(t, testenv.CompileCText(t, countingItself, "-O0", "-fcf-protection=none", "-DWORK=10"))
	s := newSession(t, wire.Options{PID: c.pid})
	ask(t, s, "SET max_overhead = 0")
	const turns = 500 // each calls hot, and the first one rare, which is rare enough to be exact
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-over:
				return
			default:
				c.turn(turns)
			}
		}
	}()
	var a reply
	var n, low, high float64
	known := false
	// A slice may be taken between the decision to end and the end: then one group may be known less well.
	for range 3 {
		a = ask(t, s, `SELECT function_name, COUNT(*), exact(COUNT(*)) FROM function_start WHERE function_name IN (hot, rare)
			GROUP BY function_name ORDER BY function_name DESC FOR 60s ERROR WITHIN 40% AT CONFIDENCE 90% WITHIN OVERHEAD 20%`)
		if len(a.rows) != 2 || a.rows[0][0] != "rare" {
			t.Fatalf("the rows are %v", a.rows)
		}
		k, _ := fmt.Sscan(a.rows[1][1]+" "+a.rows[1][3]+" "+a.rows[1][4], &n, &low, &high)
		if known = k == 3 && n > 0 && high <= 1.41*n && low >= 0.59*n && a.rows[0][2] == "true"; known {
			break
		}
	}
	close(over)
	<-ended
	complete(t, a)
	notes := strings.Join(a.summary.Notes, "\n")
	if !strings.Contains(notes, "the query ended because every group is known within 40 % at confidence 90 %") {
		t.Errorf("the footer does not say why it ended: %s", notes)
	}
	if !known {
		t.Fatalf("hot is not known within 40 %%, or rare not exactly: %v", a.rows)
	}
	rare, _ := strconv.ParseFloat(a.rows[0][1], 64)
	least, most := turns*(rare-1), turns*(rare+1)
	t.Logf("%v; it is %v to %v", a.rows, least, most)
	const slack = 1.3 // one interval in ten does not contain the truth
	if low > slack*most || high*slack < least {
		t.Errorf("%v, and it is %v to %v", a.rows[1], least, most)
	}
}

// TestExplainWithinOverhead: before a query runs EXPLAIN says how its budget will be used, and
// EXPLAIN ANALYZE how functions were observed.
func TestExplainWithinOverhead(t *testing.T) {
	testenv.NeedUprobes(t)
	c := startProgram(t, testenv.CompileCText(t, countingItself, "-O0", "-fcf-protection=none"))
	c.turn(1000)
	s := newSession(t, wire.Options{PID: c.pid})
	const query = "SELECT function_name, COUNT(*) FROM function_start WHERE function_name IN (hot, rare, never) GROUP BY function_name FOR 1500ms WITHIN OVERHEAD 20%"
	text := func(statement string) string {
		var lines []string
		for _, r := range read(t, start(t, s, statement)).rows {
			lines = append(lines, r[0])
		}
		return strings.Join(lines, "\n")
	}
	before := text("EXPLAIN " + query)
	for _, want := range []string{"budget 20 % of the CPU time that the program uses, at least 20ms each second", "for 3 functions"} {
		if !strings.Contains(before, want) {
			t.Errorf("EXPLAIN does not say %q:\n%s", want, before)
		}
	}
	var after string
	// A program that has no processor when the query begins is taken for idle: then hot is observed
	// all the time, as long as it does not cost too much.
	for range 5 {
		fmt.Fprintln(c.in, 100_000)
		after = text("EXPLAIN ANALYZE " + query)
		if c.out.Scan(); strings.Contains(after, "in slices of ") {
			break
		}
	}
	t.Log(after)
	for _, want := range []string{"all the time, 2 functions: exact", "in slices of ", "hot: ", " of 20 % allowed"} {
		if !strings.Contains(after, want) {
			t.Errorf("EXPLAIN ANALYZE does not say %q:\n%s", want, after)
		}
	}
}

package window_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"endoscope/operators"
	"endoscope/operators/internal/play"
	"endoscope/operators/internal/testplan"
	_ "endoscope/operators/optest/seeds" // the same cases in every run
)

// A session is given when the watermark has passed its end, a gap after its
// last row; a row exactly a gap later begins the next one.
func TestSession(t *testing.T) {
	n := testplan.SessionOf(testplan.Relation("t:timestamp s:varchar"), 10, false)
	testplan.Expect(t, play.Run(t, n, operators.Options{}, `
		1 a
		5 b
		--
		14 c
		24 d
		null e
		wm 23
		wm 24
		wm 33
		close`), `
		gap no timestamp 1
		wm 23
		1 a 1 24
		5 b 1 24
		14 c 1 24
		wm 24
		wm 33
		24 d 24 34
		close`)
}

// Rows out of order extend sessions at both sides and join them; within a
// session they come in order of time.
func TestSessionOutOfOrder(t *testing.T) {
	n := testplan.SessionOf(testplan.Relation("t:bigint s:varchar"), 10, false)
	testplan.Expect(t, play.Run(t, n, operators.Options{}, `
		38 a
		20 b
		12 c
		60 d
		29 e
		52 f
		45 g
		close`), `
		12 c 12 70
		20 b 12 70
		29 e 12 70
		38 a 12 70
		45 g 12 70
		52 f 12 70
		60 d 12 70
		close`)
}

// Each partition has its own sessions (NULL is a partition); they come in
// order of their ends. The aggregate sees the watermark pass, since no session
// that ends at or before it will come, although one is still open.
func TestSessionPartitions(t *testing.T) {
	n := testplan.SessionOf(testplan.Relation("t:bigint p:varchar"), 10, false, "p")
	testplan.Expect(t, play.Run(t, n, operators.Options{}, `
		1 busy
		2 x
		3 null
		--
		9 busy
		4 null
		18 busy
		wm 20
		close`), `
		2 x 2 12
		3 null 3 14
		4 null 3 14
		wm 20
		1 busy 1 28
		9 busy 1 28
		18 busy 1 28
		close`)
}

// With hold each session is a result, and the watermark waits for the oldest
// open session.
func TestSessionHold(t *testing.T) {
	n := testplan.SessionOf(testplan.Relation("t:bigint p:varchar"), 10, true, "p")
	testplan.Expect(t, play.Run(t, n, operators.Options{}, `
		1 a
		2 b
		9 a
		wm 12
		close`), `
		2 b 2 12
		flush
		wm 1
		1 a 1 19
		9 a 1 19
		flush
		close`)
}

// Late is what could only lie in a session that is closed: not a row that
// belongs to an open session, nor one whose own session would be open still.
func TestSessionLate(t *testing.T) {
	n := testplan.SessionOf(testplan.Relation("t:bigint s:varchar"), 10, false)
	testplan.Expect(t, play.Run(t, n, operators.Options{}, `
		1 a
		30 b
		wm 35
		5 late
		25 joins
		26 c
		21 d
		wm 60
		close`), `
		1 a 1 11
		wm 35
		gap late 1
		21 d 21 40
		25 joins 21 40
		26 c 21 40
		30 b 21 40
		wm 60
		close`)
}

// Sessions agree with their definition: sort a partition's rows by time, cut
// where the distance is a gap or more.
func TestSessionAgreesWithDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type row struct{ t, p, n int64 }
		var rows []row
		gap := rapid.Int64Range(1, 8).Draw(t, "gap")
		var script strings.Builder
		low := int64(0) // rows are out of order by at most 10, and never late
		for i := range rapid.IntRange(0, 60).Draw(t, "rows") {
			r := row{low + rapid.Int64Range(0, 10).Draw(t, "t"), rapid.Int64Range(0, 2).Draw(t, "p"), int64(i)}
			rows = append(rows, r)
			fmt.Fprintf(&script, "%d %d %d\n", r.t, r.p, r.n)
			switch rapid.IntRange(0, 3).Draw(t, "then") {
			case 0:
				low += rapid.Int64Range(0, 15).Draw(t, "step")
				fmt.Fprintf(&script, "wm %d\n", low)
			case 1:
				script.WriteString("--\n")
			}
		}
		script.WriteString("close\n")
		n := testplan.SessionOf(testplan.Relation("t:bigint p:bigint n:bigint"), time.Duration(gap), false, "p")
		got, err := play.Perform(n, operators.Options{}, script.String(), rapid.Bool().Draw(t, "sparse"))
		if err != nil {
			t.Fatal(err)
		}
		slices.SortStableFunc(rows, func(a, b row) int { return int(a.t - b.t) })
		var want []string
		for p := range int64(3) {
			var session []row
			end := func() {
				for _, r := range session {
					want = append(want, fmt.Sprintf("%d %d %d %d %d\n", r.t, r.p, r.n, session[0].t, session[len(session)-1].t+gap))
				}
				session = nil
			}
			for _, r := range rows {
				if r.p != p {
					continue
				}
				if len(session) > 0 && r.t-session[len(session)-1].t >= gap {
					end()
				}
				session = append(session, r)
			}
			end()
		}
		// Every row with its borders, and every partition's rows in order.
		var lines []string
		watermark := int64(-1)
		for line := range strings.Lines(got) {
			var r row
			var start, end int64
			if n, _ := fmt.Sscanf(line, "%d %d %d %d %d", &r.t, &r.p, &r.n, &start, &end); n == 5 {
				lines = append(lines, line)
				if end <= watermark {
					t.Fatalf("session %d ended before watermark %d", end, watermark)
				}
			}
			fmt.Sscanf(line, "wm %d", &watermark)
		}
		slices.SortStableFunc(lines, func(a, b string) int { return partitionOf(a) - partitionOf(b) })
		if !slices.Equal(lines, want) {
			t.Fatalf("gap %d\n%s\ngot\n%s\nwant\n%s", gap, script.String(), strings.Join(lines, ""), strings.Join(want, ""))
		}
	})
}

func partitionOf(line string) int {
	var t, p int
	fmt.Sscanf(line, "%d %d", &t, &p)
	return p
}

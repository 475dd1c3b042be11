package fleet

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// Columns of the first stages of the statements below.
var (
	windowColumns = []wire.Column{{Name: "pane", Type: types.Timestamp}, {Name: "arg0", Type: types.Bigint}, {Name: "window_start", Type: types.Timestamp}, {Name: "window_end", Type: types.Timestamp}, {Name: "n", Type: types.Bigint}}
	totalColumns  = []wire.Column{{Name: "pane", Type: types.Timestamp}, {Name: "arg0", Type: types.Bigint}, {Name: "n", Type: types.Bigint}}
)

const (
	windowStatement = "SELECT window_end, arg0, COUNT(*) AS n FROM TUMBLE(function_start, 10ns) GROUP BY arg0 ORDER BY arg0"
	totalStatement  = "SELECT arg0, COUNT(*) AS n FROM function_start GROUP BY arg0 ORDER BY arg0 EMIT EVERY 1s"
)

func results(t testing.TB, s *session, statement string) wire.Result {
	t.Helper()
	r, err := s.Execute(t.Context(), statement)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// expect checks the next events of a result.
func expect(t testing.TB, r wire.Result, want ...string) {
	t.Helper()
	for _, w := range want {
		ev, err := r.Next(t.Context())
		if err != nil {
			t.Fatalf("%v, want %s", err, w)
		}
		if got := text(ev); got != w {
			t.Fatalf("%s, want %s", got, w)
		}
	}
}

// A window's result includes all hosts, and is returned when none has more of it.
func TestWindowsOfHosts(t *testing.T) {
	a, b := newScripted("a", windowColumns...), newScripted("b", windowColumns...)
	r := results(t, sessionOf(a, b), windowStatement)
	a.send(a.rows([]int64{0, 1, 0, 10, 5}, []int64{0, 2, 0, 10, 6}), flush, mark(10))
	a.send(a.rows([]int64{0, 1, 10, 20, 7}), flush, mark(20))
	b.send(b.rows([]int64{0, 2, 0, 10, 100}), flush, mark(15))
	expect(t, r, "10 1 5,10 2 106", "flush")
	b.send(mark(20)) // it has no rows there
	expect(t, r, "20 1 7", "flush")
	b.send(b.rows([]int64{0, 3, 20, 30, 1}), flush, mark(30))
	b.fail()
	a.send(a.rows([]int64{0, 3, 20, 30, 1}), flush, mark(30))
	a.end()
	got := rest(t, r)
	slices.Sort(got) // when it is heard that b is lost is left open
	if !slices.Equal(got, []string{"30 3 2", "b is lost, and the others go on: it does not answer", "flush"}) {
		t.Errorf("the rest is %q", got)
	}
	if sum := r.Summary(); sum.Rows != 4 || len(sum.Losses) > 0 || !strings.HasPrefix(sum.Notes[0], "1 of 2 hosts") {
		t.Errorf("%+v", sum)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// Rows of a window that was already returned are late, and counted.
func TestLateWindowsOfHosts(t *testing.T) {
	a, b := newScripted("a", windowColumns...), newScripted("b", windowColumns...)
	r := results(t, sessionOf(a, b), windowStatement)
	a.send(a.rows([]int64{0, 1, 0, 10, 5}), flush, mark(10))
	b.send(mark(10))
	expect(t, r, "10 1 5", "flush")
	b.send(b.rows([]int64{0, 1, 0, 10, 5}, []int64{0, 2, 0, 10, 5}), flush)
	a.end()
	b.end()
	if got := rest(t, r); len(got) > 0 {
		t.Errorf("there is more: %q", got)
	}
	if sum := r.Summary(); len(sum.Losses) != 1 || sum.Losses[0] != (wire.Loss{Cause: lateCause, N: 2}) {
		t.Errorf("%+v", sum)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// When too many rows are queued, windows are returned without a host that is far
// behind; its rows are then late.
func TestWindowsThatWaitForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newScripted("a", windowColumns...), newScripted("b", windowColumns...)
		const windows = mostPending/batch.MaxRows + 1 // of as many groups as a batch has: one too many
		a.steps = make(chan step, 3*windows)
		rows := make([][]int64, batch.MaxRows)
		for w := range int64(windows) {
			for i := range rows {
				rows[i] = []int64{0, int64(i), 10 * w, 10*w + 10, 1}
			}
			a.send(a.rows(rows...), flush)
		}
		r := results(t, sessionOf(a, b), windowStatement)
		returned := 0
		for {
			ev, err := r.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if ev.Kind == wire.Flush {
				break
			}
			if end := ev.Batch.Cols[0].Value(ev.Batch.Row(0)).I; end != 10 {
				t.Errorf("the first window ends at %d", end)
			}
			returned += ev.Batch.Len()
			ev.Batch.Release()
		}
		if returned != batch.MaxRows {
			t.Errorf("%d groups are returned", returned)
		}
		b.send(b.rows([]int64{0, 1, 0, 10, 5}))
		b.end()
		a.end()
		if got := rest(t, r); len(got) != 2*(windows-1) || !strings.HasPrefix(got[0], "20 0 1,20 1 1,") {
			t.Errorf("there are %d more, first %.100q", len(got), got[:1])
		}
		sum := r.Summary()
		if len(sum.Losses) != 1 || sum.Losses[0] != (wire.Loss{Cause: lateCause, N: 1}) || !slices.Contains(sum.Notes, "windows that did not wait for hosts that were too far behind: 1") {
			t.Errorf("%+v", sum)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Windows use the hosts' clocks: the footer says how far these differ. Totals do
// not depend on them.
func TestWindowsAreByClocksOfHosts(t *testing.T) {
	for _, of := range []struct {
		statement string
		cols      []wire.Column
		want      string
	}{
		{windowStatement, windowColumns, "2 of 2 hosts; windows are by the clock of each host: these are 5s apart, ±3ms"},
		{totalStatement, totalColumns, "2 of 2 hosts"},
	} {
		a, b := newScripted("a", of.cols...), newScripted("b", of.cols...)
		a.ahead, a.by, b.ahead, b.by = 3*time.Second, time.Millisecond, -2*time.Second, 2*time.Millisecond
		a.end()
		b.end()
		r := results(t, sessionOf(a, b), of.statement)
		rest(t, r)
		if got := strings.Join(r.Summary().Notes, "; "); got != of.want {
			t.Errorf("%s: the footer has %s, want %s", of.statement, got, of.want)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// EMIT EVERY returns the totals of all hosts each time that every host has sent
// its own; those of a host that has ended, or is lost, remain included.
func TestTotalsOfHosts(t *testing.T) {
	a, b := newScripted("a", totalColumns...), newScripted("b", totalColumns...)
	r := results(t, sessionOf(a, b), totalStatement)
	a.send(a.rows([]int64{0, 1, 1}), flush, a.rows([]int64{0, 1, 2}), flush) // it is ahead
	b.send(b.rows([]int64{0, 1, 10}, []int64{0, 2, 10}), flush)
	expect(t, r, "1 11,2 10", "flush")
	b.send(b.rows([]int64{0, 1, 20}, []int64{0, 2, 20}), flush)
	expect(t, r, "1 22,2 20", "flush")
	b.end()
	a.send(a.rows([]int64{0, 1, 3}), flush)
	expect(t, r, "1 23,2 20", "flush")
	a.send(a.rows([]int64{0, 1, 4})) // an incomplete round
	a.end()
	if got := rest(t, r); len(got) > 0 {
		t.Errorf("there is more: %q", got)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// The first total of a reducer that takes over is in the next answer, whatever its number is, once
// its shard was not waited for any more. Totals that the one before has sent come first.
func TestTotalsOfNextReducer(t *testing.T) {
	for _, number := range []uint64{1, 2, 3, 4, 5, 100} {
		synctest.Test(t, func(t *testing.T) {
			a, b := newScripted("a", totalColumns...), newScripted("b", totalColumns...)
			total := func(of *scripted, n int64, round, epoch uint64) {
				of.send(of.rows([]int64{0, 1, n}), wire.Event{Kind: wire.Flush, Round: round, Epoch: epoch})
			}
			r := results(t, sessionOf(a, b), totalStatement)
			total(a, 1, 1, 1)
			total(b, 10, 1, 1)
			expect(t, r, "1 11", "flush")
			time.Sleep(few.patience / 2)
			total(a, 2, 2, 1)
			expect(t, r, "b has sent nothing for 5s: the result no longer waits for it", "1 12", "flush")
			total(b, 20, number, 2)
			expect(t, r, "b sends again: the result waits for it")
			synctest.Wait()
			total(a, 3, 3, 1)
			expect(t, r, "1 23", "flush")
			total(b, 30, number+1, 2)
			total(b, 40, number+3, 3)
			synctest.Wait()
			total(a, 4, 4, 1)
			expect(t, r, "1 34", "flush")
			a.end()
			b.end()
			if got := rest(t, r); !slices.Equal(got, []string{"1 44", "flush"}) {
				t.Errorf("number %d: the rest is %q", number, got)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A host whose numbers are higher than those of another one, which was restarted while neither could
// be reached, is behind by as many answers, but not for long.
func TestTotalsOfHighNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newScripted("a", totalColumns...), newScripted("b", totalColumns...)
		r := results(t, sessionOf(a, b), totalStatement)
		answers := make(chan int64)
		go func() {
			defer close(answers)
			for {
				ev, err := r.Next(t.Context())
				switch {
				case err != nil:
					return
				case ev.Batch != nil:
					answers <- ev.Batch.Cols[1].Value(ev.Batch.Row(0)).I
					ev.Batch.Release()
				}
			}
		}()
		for n := int64(1); n < 100; n++ {
			number := n
			if n > 1 {
				number += 8
			}
			b.send(b.rows([]int64{0, 1, n}), wire.Event{Kind: wire.Flush, Round: uint64(number)})
			synctest.Wait()
			a.send(a.rows([]int64{0, 1, 0}), wire.Event{Kind: wire.Flush, Round: uint64(n)})
			behind := min(n-1, 8)
			if n > 4+mostRounds {
				behind = 0
			}
			if got := <-answers; got != n-behind {
				t.Errorf("answer %d has total %d", n, got)
			}
		}
		a.end()
		b.end()
		if n, more := <-answers; more {
			t.Errorf("there is one more answer, with total %d", n)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Groups that are each of one host are sorted each time that all hosts have sent
// theirs, and for each window.
func TestRoundsInOrder(t *testing.T) {
	columns := []wire.Column{{Name: "host", Type: types.Varchar}, {Name: "arg0", Type: types.Bigint}, {Name: "n", Type: types.Bigint}}
	for _, of := range []struct {
		statement string
		cols      []wire.Column
		more      []int64 // in every row
	}{
		{"SELECT arg0, COUNT(*) AS n FROM function_start GROUP BY host, arg0 ORDER BY n DESC LIMIT 2 EMIT EVERY 1s", columns, nil},
		{"SELECT arg0, COUNT(*) AS n FROM TUMBLE(function_start, 10ns) GROUP BY host, arg0 ORDER BY n DESC LIMIT 2",
			append(slices.Clone(columns), wire.Column{Name: "ws", Type: types.Timestamp}, wire.Column{Name: "we", Type: types.Timestamp}), []int64{0, 10}},
	} {
		a, b := newScripted("a", of.cols...), newScripted("b", of.cols...)
		row := func(values ...int64) []int64 { return append(values, of.more...) }
		r := results(t, sessionOf(a, b), of.statement)
		a.send(a.rows(row(1, 5), row(2, 1)), flush, mark(10))
		b.send(b.rows(row(7, 9), row(8, 5)), flush, mark(10))
		expect(t, r, "b 7 9,a 1 5", "flush")
		a.end()
		b.end()
		if got := rest(t, r); len(got) > 0 {
			t.Errorf("%s: there is more: %q", of.statement, got)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

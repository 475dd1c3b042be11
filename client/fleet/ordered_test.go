package fleet

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"endoscope/planner/types"
	"endoscope/server/wire"
)

var timedColumns = []wire.Column{{Name: "host", Type: types.Varchar}, {Name: "timestamp", Type: types.Timestamp}, {Name: "arg0", Type: types.Bigint}}

const rowsStatement = "SELECT timestamp, arg0 FROM function_start"

// inTime executes a statement of which rows are the result.
func inTime(t testing.TB, s *session) wire.Result {
	t.Helper()
	r, err := s.Execute(t.Context(), rowsStatement)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Rows are returned in order of their times by this machine's clock, however they
// are distributed over hosts and batches; those of one host keep their order.
func TestRowsAreInOrderOfTime(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var hosts []*scripted
		var want []int64
		for i := range rapid.IntRange(2, 4).Draw(rt, "hosts") {
			h := newScripted(string(rune('a'+i)), timedColumns...)
			h.ahead = time.Duration(rapid.Int64Range(-1000, 1000).Draw(rt, "ahead"))
			hosts = append(hosts, h)
			now := int64(10_000)
			for range rapid.IntRange(0, 6).Draw(rt, "batches") {
				var rows [][]int64
				for range rapid.IntRange(1, 5).Draw(rt, "rows") {
					now += rapid.Int64Range(0, 50).Draw(rt, "later")
					rows = append(rows, []int64{now + int64(h.ahead), 1})
					want = append(want, now)
				}
				h.send(h.rows(rows...))
				if rapid.Bool().Draw(rt, "mark") {
					h.send(mark(now + int64(h.ahead)))
				}
			}
			h.end()
		}
		s := sessionOf(hosts...)
		r := inTime(t, s)
		var got []int64
		for {
			ev, err := r.Next(t.Context())
			if err != nil {
				break
			}
			for i := range ev.Batch.Len() {
				row := ev.Batch.Row(i)
				host := ev.Batch.Cols[0].Value(row).S
				h := hosts[slices.IndexFunc(hosts, func(h *scripted) bool { return h.name == host })]
				got = append(got, ev.Batch.Cols[1].Int[row]-int64(h.ahead))
			}
			ev.Batch.Release()
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			rt.Fatalf("the rows are %v, want %v", got, want)
		}
		if err := r.Close(); err != nil {
			rt.Fatal(err)
		}
	})
}

// A row waits until the other hosts have progressed as far, and no longer. Their
// progress may be a watermark. Rows that the clocks cannot distinguish do not
// wait.
func TestRowsWaitForOtherHosts(t *testing.T) {
	a, b := newScripted("a", timedColumns...), newScripted("b", timedColumns...)
	a.by, b.by = 3, 4
	s := sessionOf(a, b)
	r := inTime(t, s)
	a.send(a.rows([]int64{100, 1}, []int64{107, 2}, []int64{108, 3}))
	b.send(mark(100)) // with 7 of uncertainty that is enough for two
	ev, err := r.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := text(ev); got != "a 100 1,a 107 2" {
		t.Errorf("first %s", got)
	}
	b.send(b.rows([]int64{101, 9})).send(mark(200))
	ev, err = r.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := text(ev); got != "b 101 9" {
		t.Errorf("then %s", got)
	}
	b.fail() // it is no longer waited for
	a.end()
	if got := rest(t, r); !slices.Equal(got, []string{"a 108 3", "b is lost, and the others go on: it does not answer"}) && !slices.Equal(got, []string{"b is lost, and the others go on: it does not answer", "a 108 3"}) {
		t.Errorf("and then %q", got)
	}
	notes := strings.Join(r.Summary().Notes, "; ")
	if !strings.Contains(notes, "1 of 2 hosts (b: it does not answer)") || !strings.Contains(notes, "order between hosts is right within ±1µs") {
		t.Errorf("the footer has %s", notes)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// Rows of a host that was silent arrive too late for the order if it continues.
// The footer counts those that are out of order by more than the uncertainty of
// the clocks.
func TestRowsOfSilentHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newScripted("a", timedColumns...), newScripted("b", timedColumns...)
		a.by, b.by = 3, 4
		r := inTime(t, sessionOf(a, b))
		a.send(a.rows([]int64{100, 1}))
		a.end()
		expect(t, r, "b has sent nothing for 5s: the result no longer waits for it", "a 100 1")
		b.send(b.rows([]int64{90, 1}, []int64{80, 1}, []int64{92, 1}, []int64{93, 1}, []int64{101, 1}))
		b.end()
		if got := rest(t, r); !slices.Equal(got, []string{"b sends again: the result waits for it", "b 90 1,b 80 1,b 92 1,b 93 1,b 101 1"}) {
			t.Errorf("the rest is %q", got)
		}
		if notes := r.Summary().Notes; !slices.Contains(notes, "order between hosts is right within ±1µs, but for 3 rows that came too late for it") {
			t.Errorf("the footer has %q", notes)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Clocks that move are less certain by as much.
func TestClocksThatMove(t *testing.T) {
	a, b := newScripted("a", timedColumns...), newScripted("b", timedColumns...)
	a.ahead, a.by, b.by = time.Second, time.Millisecond, 2*time.Millisecond
	s := sessionOf(a, b)
	if d, ok := s.clocks.within(); d != 3*time.Millisecond || !ok {
		t.Errorf("they are certain within %v", d)
	}
	a.ahead += 5 * time.Millisecond
	s.clocks.measure(t.Context(), s.members)
	if d, _ := s.clocks.within(); d != 6*time.Millisecond {
		t.Errorf("after 5 ms of movement, of which 2 may be none, within %v", d)
	}
}

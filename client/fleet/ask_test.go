package fleet

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"endoscope/operators/batch"
	"endoscope/server/wire"
)

// Hosts that hang when they are asked what a name stands for hold a statement up once,
// all of them together, and give nothing: they may mean something else by it.
func TestHostsThatDoNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cols := []wire.Column{{Name: "n", Type: batch.Bigint}}
		a, b, c := newScripted("a", cols...), newScripted("b", cols...), newScripted("c", cols...)
		a.mute, b.mute = "SHOW STREAMS", "SHOW STREAMS"
		began := time.Now()
		c.end() // of what it says of the stream: it is none
		s := sessionOf(a, b, c)
		r, err := s.Execute(t.Context(), "SELECT n FROM mine")
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != answering {
			t.Errorf("it is executed after %v", took)
		}
		for _, h := range []*scripted{a, b, c} {
			h.give(h.rows([]int64{1}))
			h.end()
		}
		if got := rest(t, r); len(got) != 1 || got[0] != "c 1" {
			t.Errorf("the rows are %q", got)
		}
		if notes := strings.Join(r.Summary().Notes, "; "); !strings.Contains(notes, "1 of 3 hosts (a: it does not answer; b: it does not answer)") {
			t.Errorf("the footer has %s", notes)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// What a statement gives is said by the next host if the first one hangs.
func TestTheNextHostDescribes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newScripted("a"), newScripted("b")
		a.mute = "SELECT"
		if _, err := sessionOf(a, b).Describe(t.Context(), "SELECT 1"); err != nil {
			t.Error(err)
		}
		b.mute = "SELECT"
		if _, err := sessionOf(a, b).Describe(t.Context(), "SELECT 1"); err == nil || err.Error() != "no host answers" {
			t.Errorf("of hosts that all hang: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := sessionOf(a, b).Describe(ctx, "SELECT 1"); !errors.Is(err, context.Canceled) {
			t.Errorf("if nobody waits any more: %v", err)
		}
	})
}

// A statement that no host accepts ends.
func TestNoHostAccepts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newScripted("a", timedColumns...), newScripted("b", timedColumns...)
		a.mute, b.mute = rowsStatement, rowsStatement
		began := time.Now()
		if _, err := sessionOf(a, b).Execute(t.Context(), rowsStatement); err == nil || !strings.Contains(err.Error(), "none of 2 hosts answers") {
			t.Errorf("it is %v", err)
		}
		if took := time.Since(began); took != accepting {
			t.Errorf("it ends after %v", took)
		}
	})
}

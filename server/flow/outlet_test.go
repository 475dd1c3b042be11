package flow

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"pgregory.net/rapid"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// rowsOf returns a batch of n rows.
func rowsOf(n int) *batch.Batch {
	b := batch.New([]types.Type{types.Bigint})
	for i := range n {
		b.AppendRow(types.Int(int64(i)))
	}
	return b
}

// However a client reads, the rows it gets and those dropped add up to the
// query's result, gaps in the row numbers equal the counted losses, and no more
// than the limit waits.
func TestUnreadRowsAreDroppedAndCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(8, 64*8).Draw(t, "limit")
		o := NewOutlet(NewTally(), limit)
		o.Live.Store(true)
		ctx := context.Background()
		var produced, received, gaps, next uint64
		read := func() bool {
			ev, ok, err := o.pop()
			if err != nil {
				if gaps += ev.Row - next; !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				return false
			}
			if ok && ev.Kind == wire.Rows {
				gaps += ev.Row - next
				next = ev.Row + uint64(ev.Batch.Len())
				received += uint64(ev.Batch.Len())
				ev.Batch.Release()
			}
			return ok
		}
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				n := rapid.IntRange(1, 20).Draw(t, "rows")
				produced += uint64(n)
				if _, err := o.Push(ctx, 0, rowsOf(n)); err != nil {
					t.Fatal(err)
				}
			case 2:
				if _, err := o.Signal(ctx, 0, operators.Signal{Kind: operators.Flush}); err != nil {
					t.Fatal(err)
				}
			case 3:
				read()
			}
			batches := 0
			for _, ev := range o.events[o.head:] {
				if ev.Batch != nil {
					batches++
				}
			}
			if o.held.bytes > limit && batches > 1 { // one batch may always wait
				t.Fatalf("%d bytes wait in %d batches, the limit is %d", o.held.bytes, batches, limit)
			}
		}
		o.Finish(nil, 0)
		for read() {
		}
		losses := o.t.Losses()
		var lost uint64
		for _, l := range losses {
			if l.Cause != notRead {
				t.Fatalf("lost by %q", l.Cause)
			}
			lost += l.N
		}
		if received+lost != produced || gaps != lost || o.t.Rows.Load() != received {
			t.Fatalf("%d rows were given, %d received, %d counted as lost, gaps of %d, %d counted as given",
				produced, received, lost, gaps, o.t.Rows.Load())
		}
	})
}

// If waiting loses nothing, the query waits for its client.
func TestWaitsWhereNothingIsLost(t *testing.T) {
	for _, of := range []struct {
		unread         int64
		whole, hurried bool
	}{
		{0, false, true}, // the query always waits for such a client
		{8, false, false},
		{8, true, true}, // group states: a missing one would change the meaning of others
	} {
		unread := of.unread
		o := NewOutlet(NewTally(), unread)
		o.Whole = of.whole
		o.Live.Store(of.hurried)
		ctx, cancel := context.WithCancel(t.Context())
		var err error
		for i := 0; err == nil; i++ {
			if i == waitingEvents {
				cancel() // it waits, or would have to
			}
			if i > 2*waitingEvents {
				t.Fatal("it takes everything")
			}
			if unread > 0 && i == 1 {
				cancel()
			}
			_, err = o.Push(ctx, 0, rowsOf(1))
		}
		if !errors.Is(err, context.Canceled) || len(o.t.Losses()) > 0 {
			t.Errorf("limit %d: %v, lost %v", unread, err, o.t.Losses())
		}
		o.Discard()
		cancel()
	}
}

// A slow client gets whole previews or none.
func TestPreviewsAreSkippedWhole(t *testing.T) {
	o := NewOutlet(NewTally(), 1<<20)
	o.Live.Store(true)
	ctx := t.Context()
	preview := func() {
		o.Preview = true
		defer func() { o.Preview = false }()
		for range 2 {
			if _, err := o.Push(ctx, 0, rowsOf(1)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := o.Signal(ctx, 0, operators.Signal{Kind: operators.Flush, Preview: true}); err != nil {
			t.Fatal(err)
		}
	}
	preview()
	preview() // the first preview was not taken yet
	var got []wire.EventKind
	for {
		ev, ok, _ := o.pop()
		if !ok {
			break
		}
		got = append(got, ev.Kind)
	}
	if len(got) != 3 || got[2] != wire.Preview {
		t.Errorf("got %v, want two batches and the end of one preview", got)
	}
	if o.t.Rows.Load() != 0 || len(o.t.Losses()) != 0 {
		t.Error("rows of previews were counted")
	}
}

// A query that waits for room for states notices that it is to end.
func TestWaitForRoomEndsWithTheQuery(t *testing.T) {
	stopped, over := make(chan struct{}), make(chan time.Time, 1)
	close(stopped)
	over <- time.Time{}
	for what, o := range map[string]*Outlet{
		"stop": {t: NewTally(), unread: 8, ready: make(chan struct{}, 1), room: make(chan struct{}, 1), Stop: stopped},
		"FOR":  {t: NewTally(), unread: 8, ready: make(chan struct{}, 1), room: make(chan struct{}, 1), Deadline: over},
	} {
		o.Live.Store(true)
		halted := 0
		o.Halt = func() {
			halted++
			if ev, ok, _ := o.pop(); ok {
				ev.Batch.Release() // the client reads on; otherwise the next send would wait for ever
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		for range 2 {
			if err := o.SendRows(ctx, wire.PortStates, rowsOf(8)); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		cancel()
		if halted != 1 || len(o.t.Losses()) > 0 {
			t.Errorf("%s: %d times halted, lost %v", what, halted, o.t.Losses())
		}
		o.Discard()
	}
}

// Cues for a fragment are bounded, however long its client does not read.
func TestCuesAreBounded(t *testing.T) {
	o := NewOutlet(NewTally(), 1<<20)
	o.Live.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range int64(100) {
		if err := o.SendCue(ctx, wire.Cue{Kind: wire.CueTick, Time: i}); err != nil {
			t.Fatal(err)
		}
	}
	if n := o.waiting(); n != 1 || o.events[0].Cue.Time != 99 {
		t.Errorf("%d ticks wait, the first at %d", n, o.events[0].Cue.Time)
	}
	var err error
	for i := 0; err == nil; i++ {
		if i == waitingCues-1 { // one is already waiting
			cancel()
		}
		if i > 2*waitingCues {
			t.Fatal("it takes every cue")
		}
		err = o.SendCue(ctx, wire.Cue{Kind: wire.CueTick, Preview: i%2 == 0})
	}
	if n := o.waiting(); n > waitingCues {
		t.Errorf("%d cues wait", n)
	}
	o.Discard()
}

// Rows that wait for a client are counted; states and rows taken are not.
func TestRowsThatWait(t *testing.T) {
	o := NewOutlet(NewTally(), 1<<20)
	for _, port := range []wire.Port{wire.PortRows, wire.PortStates, wire.PortLowered} {
		if err := o.SendRows(t.Context(), port, rowsOf(8)); err != nil {
			t.Fatal(err)
		}
	}
	if n := o.UnreadRows(); n != 16 {
		t.Errorf("%d rows wait, want 16", n)
	}
	if ev, ok, _ := o.pop(); ok {
		ev.Batch.Release()
	}
	if n := o.UnreadRows(); n != 8 {
		t.Errorf("%d rows wait, want 8", n)
	}
	o.Discard()
}

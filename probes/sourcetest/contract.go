package sourcetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"endoscope/operators/batch"
	"endoscope/probes"
)

// Contract moves a source through its states, and checks in each that it
// supports the commands that its Info promises, and refuses the others. each is
// called after every command, with the state; it may be nil.
func Contract(t *testing.T, src probes.Source, each func(state string, c probes.Command)) {
	t.Helper()
	ctx := context.Background()
	look := func(state string) {
		t.Helper()
		_ = src.Stats()
		for _, c := range Commands() {
			i := src.Info()
			var err error
			within(t, state+": "+Name(c), func() { _, err = src.Control(ctx, c) })
			if refused := errors.Is(err, probes.ErrUnsupported); refused == i.Supports(c) {
				t.Errorf("%s: %s: supported %v, and the error is %v", state, Name(c), i.Supports(c), err)
			} else if err != nil && !refused {
				t.Errorf("%s: %s: %v", state, Name(c), err)
			}
			if each != nil {
				each(state, c)
			}
		}
	}
	look("prepared")
	i := src.Info()
	o := probes.Options{Standby: i.Standby, Gates: probes.Gates{Detaches: i.Detaches}}
	if err := src.Load(ctx, o); err != nil {
		t.Fatal(err)
	}
	look("loaded")
	sink := &Discard{Ended: make(chan struct{})}
	if err := src.Start(ctx, sink, o); err != nil {
		t.Fatal(err)
	}
	look("started")
	for range 2 {
		within(t, "Stop", func() {
			if err := src.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	within(t, "the end", func() { <-sink.Ended })
	look("stopped")
}

// within fails the test if f hangs.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		t.Fatalf("%s does not return", what)
	}
}

// Discard is a sink that accepts and drops everything.
type Discard struct{ Ended chan struct{} }

// Push implements probes.Sink.
func (d *Discard) Push(b *batch.Batch) { b.Release() }

// Partial implements probes.Sink.
func (d *Discard) Partial(b *batch.Batch) { b.Release() }

// Watermark implements probes.Sink.
func (d *Discard) Watermark(int64) {}

// Lost implements probes.Sink.
func (d *Discard) Lost(string, uint64) {}

// Count implements probes.Sink.
func (d *Discard) Count(string, uint64) {}

// End implements probes.Sink.
func (d *Discard) End(error) { close(d.Ended) }

package root

import (
	"context"
	"errors"
	"time"

	"endoscope/server/wire/bus"
)

// tenure is a reducer's right to keep a standing query, while others wait for it. They need
// no clock in common: a reducer takes over when it has seen the same revision for
// tenureLength. One that was replaced and goes on for a moment changes nothing, since results
// are added to those that it has seen (records).
type tenure struct {
	e           *Engine
	query, name string
	first       bool      // it is the one that begins
	revision    uint64    // the last one that was seen
	seen        time.Time // when it was first seen; zero: none was
}

const (
	// tenureLength is how long nobody else keeps a query when its reducer is killed.
	tenureLength = 5 * time.Second
	renewEvery   = time.Second
)

// begin takes the query if nobody else keeps it.
func (t *tenure) begin(ctx context.Context) (mine bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, tenureLength)
	defer cancel()
	k, revision, err := bus.KeeperOf(ctx, t.e.nc, t.query)
	if err != nil {
		return false, err
	}
	if now := time.Now(); t.seen.IsZero() || revision != t.revision {
		t.revision, t.seen = revision, now
	}
	switch {
	case k.Name == t.name, revision == 0 && t.first, revision > 0 && k.Name == "", time.Since(t.seen) > tenureLength:
	default:
		return false, nil
	}
	return t.set(ctx, t.name)
}

// set says who keeps the query now. mine is false if another reducer has said so.
func (t *tenure) set(ctx context.Context, name string) (mine bool, err error) {
	revision, err := bus.SetKeeper(ctx, t.e.nc, t.query, bus.Keeper{Name: name}, t.revision)
	switch {
	case errors.Is(err, bus.ErrMoved):
		return false, nil
	case err != nil:
		return false, err
	}
	t.revision, t.seen = revision, time.Now()
	return true, nil
}

// renew renews the tenure until ctx is done. lost is called when another reducer has the
// query.
func (t *tenure) renew(ctx context.Context, lost func()) {
	for pause(ctx, renewEvery) {
		mine, err := t.set(ctx, t.name)
		if err != nil || mine {
			continue
		}
		k, revision, err := bus.KeeperOf(ctx, t.e.nc, t.query) // what was set before, if its answer was lost
		if err == nil && k.Name != t.name {
			lost()
			return
		}
		if err == nil {
			t.revision = revision
		}
	}
}

// end lets another reducer begin at once.
func (t *tenure) end() {
	ctx, cancel := context.WithTimeout(context.Background(), renewEvery)
	defer cancel()
	_, _ = t.set(ctx, "")
}

package root

import (
	"cmp"
	"context"
	"errors"
	"time"

	"endoscope/server/wire/bus"
)

// tenure is a reducer's right to keep a standing query, or to own a shard, while others wait
// for it. They need no clock in common: a reducer takes over when it has seen the same revision
// for some time. One that was replaced and goes on for a moment changes nothing: results are
// added to those that it has seen (records), and of a shard the last epoch counts.
type tenure struct {
	e         *Engine
	key, name string        // the key in the bucket of keepers, and this reducer
	start     string        // of this reducer: it takes what it had before as it takes what others have; "": at once
	alone     bool          // there is no other reducer to take what this one had before
	first     bool          // it may take a key without holder
	next      bool          // it may take what another one has given up
	after     time.Duration // when it takes what is not renewed; 0: after tenureLength
	holder    string        // the last one that was seen
	revision  uint64        // of that
	seen      time.Time     // when it was first seen; zero: none was
}

const (
	// tenureLength is how long no other reducer has a key when its holder is killed.
	tenureLength = 5 * time.Second
	renewEvery   = time.Second
)

// begin takes the key if no other reducer has it.
func (t *tenure) begin(ctx context.Context) (mine bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, tenureLength)
	defer cancel()
	k, revision, err := bus.KeeperOf(ctx, t.e.nc, t.key)
	if err != nil {
		return false, err
	}
	t.holder = k.Name
	if now := time.Now(); t.seen.IsZero() || revision != t.revision {
		t.revision, t.seen = revision, now
	}
	switch {
	case k.Name == t.name && (t.alone || k.Start == t.start), revision == 0 && t.first, revision > 0 && k.Name == "" && t.next, time.Since(t.seen) > cmp.Or(t.after, tenureLength):
	default:
		return false, nil
	}
	return t.set(ctx, t.name)
}

// set sets the holder of the key. mine is false if another reducer has set it before.
func (t *tenure) set(ctx context.Context, name string) (mine bool, err error) {
	revision, err := bus.SetKeeper(ctx, t.e.nc, t.key, bus.Keeper{Name: name, Start: t.start}, t.revision)
	switch {
	case errors.Is(err, bus.ErrMoved):
		return false, nil
	case err != nil:
		return false, err
	}
	t.holder, t.revision, t.seen = name, revision, time.Now()
	return true, nil
}

// renew renews the tenure until ctx is done. lost is called when another reducer has the
// key.
func (t *tenure) renew(ctx context.Context, lost func()) {
	for pause(ctx, renewEvery) {
		mine, err := t.set(ctx, t.name)
		if err != nil || mine {
			continue
		}
		k, revision, err := bus.KeeperOf(ctx, t.e.nc, t.key) // what was set before, if its answer was lost
		if err == nil && (k.Name != t.name || k.Start != t.start) {
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

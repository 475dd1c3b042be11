package root

import (
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"endoscope/server/wire/bus"
)

// feed receives what the hosts of a shard send of all queries. Hosts may have begun to execute a
// query before the reducer knows it: what they send meanwhile is kept for a moment.
type feed struct {
	sub *nats.Subscription

	mu    sync.Mutex            // may be held when published.mu is taken
	of    map[string]*published // by query
	early []early
	bytes int // of these
}

// early is a message of a query that is not known yet.
type early struct {
	*nats.Msg
	at time.Time
}

const (
	// earlyFor is how long messages of a query are kept that is not known, and mostEarly limits
	// their bytes.
	earlyFor  = 2 * time.Second
	mostEarly = 64 << 20
)

// listen begins to receive a shard; false: it cannot be received now.
func (r *reducer) listen(shard int) bool {
	if r.feeds[shard] != nil {
		return true
	}
	f := &feed{of: map[string]*published{}}
	var err error
	if f.sub, err = r.e.subscribe(bus.PartsOfShard(shard), f.receive); err != nil {
		return false
	}
	r.feeds[shard] = f
	return true
}

// receive passes a message to its query.
func (f *feed) receive(m *nats.Msg) {
	f.mu.Lock()
	p := f.of[bus.QueryOfPart(m.Subject)]
	if p == nil {
		now := time.Now()
		n := 0
		for n < len(f.early) && (now.Sub(f.early[n].at) > earlyFor || f.bytes+len(m.Data) > mostEarly) {
			f.bytes -= len(f.early[n].Data)
			n++
		}
		f.early = append(slices.Delete(f.early, 0, n), early{m, now})
		f.bytes += len(m.Data)
	}
	f.mu.Unlock()
	if p != nil {
		p.receive(m)
	}
}

// add passes the messages of a query to p until that is closed.
func (f *feed) add(p *published) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of[p.query.ID] = p
	p.unsubscribe = func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.of, p.query.ID)
	}
	f.early = slices.DeleteFunc(f.early, func(m early) bool {
		if bus.QueryOfPart(m.Subject) != p.query.ID {
			return false
		}
		f.bytes -= len(m.Data)
		p.receive(m.Msg)
		return true
	})
}

package uprobe

import (
	"time"

	"endoscope/probes/bpf"
)

const (
	// pollInterval bounds how long an event waits when events are few.
	pollInterval = 10 * time.Millisecond
	// markInterval bounds the distance of watermarks, busy or idle.
	markInterval = 20 * time.Millisecond
	// lossInterval bounds how late a query hears of losses.
	lossInterval = time.Second
)

// reader is the goroutine between the ring and the subscriptions, one for all
// of them.
type reader struct {
	kernel   *kernel
	lateness uint64 // ns
	exes     *exeNames
	commands chan func()
	stopped  chan struct{}

	// Owned by the goroutine.
	stopping bool
	routes   [][]*subscription // by function id
	subs     []*subscriber
	lost     uint64 // kernel.lost when it was last looked at
	lookedAt time.Time
	markedAt time.Time
	percpu   []bpf.FunctionCounters
	dispatch func([]byte) // r.give, bound once
	event    event
}

// subscriber is a subscription with what the reader keeps about it.
type subscriber struct {
	*subscription
	functions []uint32
	base      []bpf.FunctionCounters // when it began
	lost      []uint64               // losses reported so far, by function
}

func startReader(k *kernel, lateness time.Duration) *reader {
	r := &reader{
		kernel:   k,
		lateness: uint64(lateness),
		exes:     newExeNames(),
		commands: make(chan func(), 1),
		stopped:  make(chan struct{}),
		lost:     k.lost(),
	}
	r.dispatch = r.give
	go r.run()
	return r
}

// do has f executed by the reader between two drains, and waits for it.
func (r *reader) do(f func()) {
	done := make(chan struct{})
	r.commands <- func() { f(); close(done) }
	r.kernel.ring.wake()
	<-done
}

// stop ends the reader and waits for it.
func (r *reader) stop() {
	r.do(func() { r.stopping = true })
	<-r.stopped
}

func (r *reader) run() {
	defer close(r.stopped)
	for !r.stopping {
		r.cycle()
		select {
		case f := <-r.commands:
			f()
		default:
			r.kernel.ring.wait(pollInterval)
		}
	}
}

// cycle drains what is there and tells subscriptions how far time has come.
func (r *reader) cycle() {
	clock := bootTime()
	r.kernel.ring.drain(r.kernel.ring.produced(), r.dispatch)
	for _, s := range r.subs {
		s.flush()
	}
	now := time.Now()
	if now.Sub(r.markedAt) >= markInterval-pollInterval {
		r.markedAt = now
		for _, s := range r.subs {
			s.watermark(clock - r.lateness)
		}
	}
	if now.Sub(r.lookedAt) >= lossInterval {
		r.lookedAt = now
		if n := r.kernel.lost(); n != r.lost {
			r.lost = n
			for _, s := range r.subs {
				r.reportLost(s)
			}
		}
	}
}

// give hands a record to the subscriptions of its function.
func (r *reader) give(record []byte) {
	if !decode(record, &r.event) || int(r.event.Function) >= len(r.routes) {
		return
	}
	for _, s := range r.routes[r.event.Function] {
		s.add(&r.event)
	}
}

// subscribe routes the functions' events to s from now on.
func (r *reader) subscribe(s *subscription, functions []uint32) {
	sub := &subscriber{subscription: s, functions: functions, base: make([]bpf.FunctionCounters, len(functions)), lost: make([]uint64, len(functions))}
	r.do(func() {
		s.since = bootTime()
		for i, id := range functions {
			// Read before the first event of ours can be: what the function's
			// other queries did is not ours to report.
			sub.base[i], _ = r.kernel.counters(id, &r.percpu)
			for int(id) >= len(r.routes) {
				r.routes = append(r.routes, nil)
			}
			r.routes[id] = append(r.routes[id], s)
		}
		r.subs = append(r.subs, sub)
	})
}

// unsubscribe gives s what happened until now, accounts for what gave no row,
// and forgets it. Probes that nobody else needs are detached before.
func (r *reader) unsubscribe(s *subscription) {
	r.do(func() {
		for end := r.kernel.ring.produced(); r.kernel.ring.drain(end, r.dispatch) < end; {
			// Another query's program is in the middle of writing a record.
			time.Sleep(50 * time.Microsecond)
		}
		for i, sub := range r.subs {
			if sub.subscription != s {
				continue
			}
			r.subs = append(r.subs[:i:i], r.subs[i+1:]...)
			for _, id := range sub.functions {
				r.routes[id] = without(r.routes[id], s)
			}
			s.flush()
			s.report(r.reportLost(sub))
			break
		}
	})
}

// reportLost tells the sink of losses not yet told, and returns how the
// counters of s's functions changed since it began.
func (r *reader) reportLost(s *subscriber) bpf.FunctionCounters {
	var total bpf.FunctionCounters
	var fresh uint64
	for i, id := range s.functions {
		now, err := r.kernel.counters(id, &r.percpu)
		if err != nil {
			continue
		}
		d := addCounters(now, s.base[i], -1)
		total = addCounters(total, d, 1)
		lost := d.LostEntry
		if s.kind == eventReturn {
			lost = d.LostReturn
		}
		fresh += lost - s.lost[i]
		s.lost[i] = lost
	}
	if fresh > 0 {
		s.sink.Lost("ring buffer full", fresh)
	}
	return total
}

// without is l but for x, as a new slice.
func without[T comparable](l []T, x T) []T {
	out := make([]T, 0, len(l))
	for _, y := range l {
		if y != x {
			out = append(out, y)
		}
	}
	return out
}

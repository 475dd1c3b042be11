package fleet_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// The result of a query goes on if the root, or all reducers, cannot reach the bus for longer than a
// host may be silent: all hosts are silent then, but none of them has ended.
func TestBusIsAwayForSomeTime(t *testing.T) {
	testenv.Long(t)
	const hosts, shards = 4, 2
	for _, from := range []string{"root", "reducers"} {
		t.Run("from the "+from, func(t *testing.T) {
			t.Parallel()
			b := startBus(t)
			w := b.witnesses(t, hosts)
			c := &cable{bus: b}
			at := bus.Address{Server: c}
			var s wire.Session
			if from == "root" {
				s = (&fleetBus{b.Server, at}).dial(t, hosts)
			} else {
				b.reduceAt(t, "r0", shards, at)
				b.reduceAt(t, "r1", shards, at)
				s, _ = b.dialReduced(t, hosts, 2, shards)
			}
			r, answers := w.execute(t, s)
			last := totals{}
			newest := func() {
				t.Helper()
				for {
					select {
					case now, ok := <-answers:
						if !ok {
							t.Fatalf("the result has ended: %q", r.Summary().Notes)
						}
						w.check(last, now, false)
						last = now
					default:
						return
					}
				}
			}
			testenv.Until(t, "all hosts are counted", func() bool {
				newest()
				return len(last) == hosts
			})
			c.set(true)
			testenv.Until(t, "all hosts are silent", func() bool {
				newest()
				return strings.HasPrefix(r.Summary().Notes[0], "0 of 4 hosts, 4 silent")
			})
			c.set(false)
			stale := last
			testenv.Until(t, "all hosts are counted again", func() bool {
				newest()
				for host, n := range stale {
					if last[host] <= n {
						return false
					}
				}
				return slices.Contains(r.Summary().Notes, "4 of 4 hosts")
			})
			w.end(r, answers, last)
		})
	}
}

// A query goes on if all its hosts are restarted, as when their version changes: none has ended.
func TestAllHostsAreRestarted(t *testing.T) {
	testenv.Long(t)
	b := startBus(t)
	const hosts = 2
	w := b.witnesses(t, hosts)
	r, answers := w.execute(t, b.dial(t, hosts))
	last := totals{}
	counted := func(what string, from int, more totals) {
		t.Helper()
		testenv.Until(t, what, func() bool {
			var ok bool
			if last, ok = <-answers; !ok {
				t.Fatalf("the result has ended: %q", r.Summary().Notes)
			}
			for i := range int64(hosts) {
				if last[int64(from)+i] <= more[int64(from)+i] {
					return false
				}
			}
			return true
		})
	}
	counted("all hosts are counted", 0, nil)
	for i := range hosts {
		w.leave[i]()
		b.join(t, bus.Host{Name: fmt.Sprint("h", i)}, w.engine(hosts+i))
	}
	counted("all hosts are counted since they were restarted", hosts, nil)
	for began := time.Now(); time.Since(began) < 3*bus.LeaseEvery; { // they would be asked to end with a lease
		counted("their counts grow", hosts, last)
	}
	r.Stop()
	for range answers {
	}
}

// A host that is away when the user ends the query gives its last total when it is back.
func TestHostIsAwayAtTheEnd(t *testing.T) {
	testenv.Long(t)
	b := startBus(t)
	const hosts = 2
	w := b.witnesses(t, hosts)
	c := &cable{bus: b}
	w.leave[0]()
	(&fleetBus{b.Server, bus.Address{Server: c}}).join(t, bus.Host{Name: "h0"}, w.engine(0))
	r, answers := w.execute(t, b.dial(t, hosts))
	last := totals{}
	testenv.Until(t, "all hosts are counted", func() bool {
		last = <-answers
		return len(last) == hosts
	})
	c.set(true)
	r.Stop()
	testenv.Until(t, "h0 is silent", func() bool { return strings.HasPrefix(r.Summary().Notes[0], "1 of 2 hosts, 1 silent: h0 ") })
	c.set(false)
	w.end(r, answers, last)
}

package fleet

import (
	"context"
	"slices"
	"sync"
	"time"
)

// clocks are the offsets of the hosts' clocks from this machine's, as the hosts
// report them. It is safe for concurrent use.
type clocks struct {
	mu    sync.Mutex
	of    map[*member]clock
	moved time.Duration // how much the differences have changed so far, at most
	blind bool          // a host did not answer
}

// clock is the measured offset of a host's clock: it is ahead by this much; the
// round trip of the question makes it uncertain.
type clock struct{ ahead, uncertain time.Duration }

// remeasured is the interval at which hosts are asked while a result is read:
// clocks drift.
const remeasured = 10 * time.Second

// measure asks all hosts. A host in this process has this machine's clock.
func (c *clocks) measure(ctx context.Context, members []*member) {
	var all sync.WaitGroup
	for _, m := range members {
		asked := m.clock
		if asked == nil {
			c.note(m, clock{}, nil)
			continue
		}
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, connecting)
			defer cancel()
			ahead, by, err := asked.Clock(ctx)
			c.note(m, clock{ahead, by}, err)
		})
	}
	all.Wait()
}

// forget forgets that a host did not answer.
func (c *clocks) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blind = false
}

// note records the answer of a host. If a host does not answer, its earlier answer
// remains valid.
func (c *clocks) note(m *member, now clock, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, asked := c.of[m]
	switch {
	case err != nil:
		c.blind = c.blind || !asked
		return
	case asked:
		// A difference within the uncertainty of both measurements does not count as
		// movement.
		c.moved = max(c.moved, (now.ahead-before.ahead).Abs()-now.uncertain-before.uncertain)
		if before.uncertain < now.uncertain && c.moved <= 0 {
			return // the earlier answer is more exact
		}
	}
	if c.of == nil {
		c.of = map[*member]clock{}
	}
	c.of[m] = now
}

// ahead returns the offset of a host's clock; 0 if it is unknown.
func (c *clocks) ahead(m *member) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[m].ahead
}

// apart returns the largest difference between two known clocks.
func (c *clocks) apart() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []time.Duration
	for _, k := range c.of {
		all = append(all, k.ahead)
	}
	if len(all) == 0 {
		return 0
	}
	return slices.Max(all) - slices.Min(all)
}

// within returns the maximum error of the difference between the times of two
// hosts, each corrected by its clock offset. ok is false if it is unknown.
func (c *clocks) within() (d time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var first, second time.Duration // the two that are least certain
	for _, k := range c.of {
		if k.uncertain > first {
			first, second = k.uncertain, first
		} else {
			second = max(second, k.uncertain)
		}
	}
	return first + second + max(c.moved, 0), !c.blind
}

package fleet

import (
	"context"
	"slices"
	"sync"
	"time"
)

// clocks are how far the clocks of hosts are ahead of this machine's, as they say
// when they are asked. It is safe for concurrent use.
type clocks struct {
	mu    sync.Mutex
	of    map[*member]clock
	moved time.Duration // how much the differences have changed so far, at most
	blind bool          // one did not say
}

// clock is what is known of a host's: it is ahead by so much, give or take what a
// question and its answer took on their way.
type clock struct{ ahead, uncertain time.Duration }

// remeasured is how often hosts are asked while a result goes on: clocks drift.
const remeasured = 10 * time.Second

// measure asks all hosts. One in this process has this machine's clock.
func (c *clocks) measure(ctx context.Context, members []*member) {
	var all sync.WaitGroup
	for _, m := range members {
		asked, ok := m.session.(interface {
			Clock(context.Context) (ahead, uncertain time.Duration, err error)
		})
		if !ok {
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

// note keeps what a host has said. One that has said it before may be silent: then
// that holds.
func (c *clocks) note(m *member, now clock, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, asked := c.of[m]
	switch {
	case err != nil:
		c.blind = c.blind || !asked
		return
	case asked:
		// What both measurements leave room for is no movement.
		c.moved = max(c.moved, (now.ahead-before.ahead).Abs()-now.uncertain-before.uncertain)
		if before.uncertain < now.uncertain && c.moved <= 0 {
			return // the one before says it better
		}
	}
	if c.of == nil {
		c.of = map[*member]clock{}
	}
	c.of[m] = now
}

// ahead is by how much a host's clock is; 0 if that is not known.
func (c *clocks) ahead(m *member) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[m].ahead
}

// apart is how far the clocks that are ahead, and behind, the most are from each other,
// as far as that is known.
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

// within is how far the times of two hosts, each less by how much its clock is
// ahead, may be apart from what they are. ok is false if that is not known.
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

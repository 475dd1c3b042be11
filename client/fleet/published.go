package fleet

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"endoscope/parser"
	"endoscope/server/wire"
)

// Published is a statement that was sent to many hosts at once, over a bus.
type Published interface {
	// Hosts are the names of the hosts that are expected to execute it, or of shards.
	Hosts() []string
	// Shard returns the hosts of a shard, whose results reducers merge; nil: it is a host.
	Shard(name string) []string
	// Answer returns a host's result, once it has accepted the statement.
	Answer(ctx context.Context, host string) (wire.Result, error)
	// Expected returns how many hosts are expected, and how many of them have not answered yet though
	// they may soon.
	Expected() (hosts, awaited int)
	// Settle is called when Answer is no longer called.
	Settle()
	// Joined returns the results of hosts that begin after Settle, or again. It is closed when there are no more.
	Joined() <-chan Joined
	// Clock returns how far a host's clock is ahead of this machine's, and the uncertainty.
	Clock(host string) (ahead, uncertain time.Duration, err error)
	// Close ends the statement at all hosts.
	Close()
}

// Joined is a host that begins later than the others.
type Joined struct {
	Host   string
	Result wire.Result
}

// many are the limits for the hosts of a bus: heartbeats and leases come each second.
var many = limits{answering: 1500 * time.Millisecond, patience: 3 * time.Second, declines: true}

// reducing is how long a reducer waits for a host to accept a statement after another one has: a
// host may have to be asked again, since it had accepted it before the reducer listened.
const reducing = 2 * time.Second

// Collect combines the results of a published statement into one. Each host executes its
// share of a query, and other statements alone.
func Collect(ctx context.Context, stmt parser.Statement, p Published) (wire.Result, error) {
	s := sessionOver(p)
	if len(s.members) == 0 {
		p.Close()
		return nil, fmt.Errorf("no host matches the query: SHOW HOSTS lists them")
	}
	r, err := s.execute(ctx, stmt, s.answer)
	if err != nil {
		p.Close()
		return nil, err
	}
	p.Settle()
	return r, nil
}

// sessionOver returns a session with the hosts of a published statement.
func sessionOver(p Published) *session {
	s := &session{limits: many, published: p}
	for _, name := range p.Hosts() {
		s.members = append(s.members, &member{name: name, clock: clockOf{p, name}, shard: p.Shard(name)})
		if p.Shard(name) != nil { // its reducer waits for the hosts before
			s.limits.answering = 2 * reducing
		}
	}
	return s
}

// answer waits for the result of a host of a published statement.
func (s *session) answer(ctx context.Context, m *member) (wire.Result, error) {
	return s.published.Answer(ctx, m.name)
}

// clockOf is the clock of a host of a published statement.
type clockOf struct {
	p    Published
	host string
}

func (c clockOf) Clock(context.Context) (ahead, uncertain time.Duration, err error) {
	return c.p.Clock(c.host)
}

// reached returns the hosts that can be asked.
func (s *session) reached() []*member {
	if s.published != nil {
		return s.members
	}
	return s.live()
}

// answered returns the hosts of a published statement whose clocks can be known.
func (s *session) answered() (out []*member) {
	for _, m := range s.members {
		if _, _, err := m.clock.Clock(context.Background()); err == nil {
			out = append(out, m)
		}
	}
	if len(out) == 0 {
		return s.members
	}
	return out
}

// join adds the hosts that begin later than the others, until there are no more.
func (g *gathered) join(all *sync.WaitGroup) {
	for {
		select {
		case j, ok := <-g.from.Joined():
			if !ok {
				return
			}
			p := &part{name: j.Host, res: j.Result, heard: time.Now(), number: g.numbers.Add(1)}
			p.member = g.s.memberOf(j.Host)
			if why := g.misfit(p); why != nil {
				_ = p.res.Close()
				p.res, p.err, p.over = nil, why, true
			}
			if !g.deliver(hostEvent{part: p, joins: true}) {
				if p.res != nil {
					_ = p.res.Close()
				}
				return
			}
			if p.res != nil {
				all.Go(func() { g.read(p) })
			}
		case <-g.ctx.Done():
			return
		}
	}
}

// memberOf returns the host of this name. Hosts that were not expected have no clock.
func (s *session) memberOf(name string) *member {
	if i := slices.IndexFunc(s.members, func(m *member) bool { return m.name == name }); i >= 0 {
		return s.members[i]
	}
	return &member{name: name}
}

// misfit returns why the rows of a host cannot be part of the result; nil if they can.
func (g *gathered) misfit(p *part) error {
	u, err := upperOf(p, fragments{})
	switch {
	case err != nil:
		return err
	case (u == nil) != (g.of == nil):
		return fmt.Errorf("it is of another version")
	case u == nil:
		return nil
	case !slices.Equal(u.cols, g.of.cols):
		return fmt.Errorf("its columns are %s", columnList(u.cols))
	}
	if why := g.of.contract(u); why != "" {
		return fmt.Errorf("the query means something else there: %s", why)
	}
	return nil
}

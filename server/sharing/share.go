package sharing

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/rules"
	"endoscope/probes"
)

// Shares are the acquisitions that running queries can have a part in. Queries
// that acquire the same have one source for it: one set of probes, one sampler.
//
// What is shared is the leaf of a plan with everything that its source does: the
// condition that the kernel tests, and the first stage of an aggregate, since
// that gives sums of what happened since the sums before, which are anybody's.
// The operators above hold what their query has seen since it began, and are its
// own. Sources that differ in anything are not shared: one link with its own
// short program each is the cheapest that the kernel can do for them.
type Shares struct {
	mu   sync.Mutex
	open map[string]*share // by part.key
}

// share is one acquisition, and the sink of its source.
//
// Locks, in this order: life, what the source takes, mu, and those of sinks.
type share struct {
	shares *Shares
	key    string

	life sync.Mutex // held while a part begins or ends

	mu     sync.Mutex // held while the source gives
	phase  sharePhase
	source probes.Source // once it is open
	parts  []*Part

	rounds
}

// sharePhase is where a share is in its life. It goes from each phase to the next, under
// share.mu: opened by the first part, which starts its source, and over when that has
// ended, the last part ends, or the source could not be started or divided. Parts join
// one that is open, and no other.
type sharePhase uint8

const (
	shareVacant sharePhase = iota // nothing acquires
	shareOpen
	shareOver
)

func New() *Shares { return &Shares{open: map[string]*share{}} }

// Offer makes a query's source, with its Info, one that others can have a part in; nil
// if that is not possible. Only sources that nobody waits for are: of the parts of
// another one the slowest would hold up the rest.
func (all *Shares) Offer(own probes.Source, i *probes.Info, spec *plan.Acquire, query func() int64) *Part {
	if i.Identity == "" || !i.Live || spec.Settings.Unshared || spec.Out.Time < 0 {
		return nil
	}
	key, ok := rules.Fingerprint(spec)
	if !ok {
		return nil
	}
	return &Part{shares: all, own: own, spec: spec, key: fmt.Sprintf("%s %+v %s %s", key, spec.Settings, spec.Target.Viewer.Identity(), i.Identity), query: query}
}

// get returns the acquisition with a key, a new one if there is none.
func (all *Shares) get(key string) *share {
	all.mu.Lock()
	defer all.mu.Unlock()
	s := all.open[key]
	if s == nil {
		s = &share{shares: all, key: key}
		all.open[key] = s
	}
	return s
}

// forget lets s have no more parts.
func (all *Shares) forget(s *share) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.open[s.key] == s {
		delete(all.open, s.key)
	}
}

// Queries are those that have a part in an acquisition, by the source that runs.
func (all *Shares) Queries() map[probes.Source][]int64 {
	all.mu.Lock()
	defer all.mu.Unlock()
	out := map[probes.Source][]int64{}
	for _, s := range all.open {
		s.mu.Lock()
		if s.phase != shareVacant {
			out[s.source] = s.ids(nil)
		}
		s.mu.Unlock()
	}
	return out
}

// ids are the queries of all parts but one.
func (s *share) ids(but *Part) (ids []int64) {
	for _, p := range s.parts {
		if p != but {
			ids = append(ids, p.query())
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// join begins p. It reports false if the acquisition is over.
func (s *share) join(ctx context.Context, p *Part) (bool, error) {
	s.life.Lock()
	defer s.life.Unlock()
	s.mu.Lock()
	phase := s.phase
	s.mu.Unlock()
	switch phase {
	case shareOver:
		return false, nil
	case shareVacant:
		s.mu.Lock()
		s.phase, s.source, s.parts = shareOpen, p.own, []*Part{p}
		p.join(s)
		s.mu.Unlock()
		// It goes on when the query that began it is over.
		err := p.own.Start(context.WithoutCancel(ctx), s, p.options)
		if err != nil {
			p.phase.Store(uint32(partAlone))
			s.end()
		}
		return err == nil, err
	}
	joined := false
	err := s.divide(func(c probes.Cut) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if joined = s.phase == shareOpen; joined {
			p.from, p.joining = c, true
			s.parts = append(s.parts, p)
			p.join(s)
		}
	}, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		p.joining = false
	})
	if err != nil {
		s.fail(err)
	}
	if joined {
		_ = p.own.Stop() // it was prepared, and holds files
	} else {
		s.end()
	}
	return joined, err
}

// divide divides what the source gives.
func (s *share) divide(begin func(probes.Cut), done func()) error {
	_, err := s.source.Control(context.Background(), probes.Divide{Begin: begin, Done: done})
	return err
}

// leave ends p, which has all that is its.
func (s *share) leave(p *Part) {
	s.parts = slices.DeleteFunc(s.parts, func(o *Part) bool { return o == p })
	p.phase.Store(uint32(partLeft))
	s.countUnfinished(p)
	p.sink.End(nil)
}

// end lets no part begin any more. life is held.
func (s *share) end() {
	s.mu.Lock()
	s.phase = shareOver
	s.mu.Unlock()
	s.shares.forget(s)
}

// fail ends the acquisition: what it gave is not all that there was. life is held.
func (s *share) fail(err error) {
	s.end()
	s.End(err)
	_ = s.source.Stop()
}

// countUnfinished counts p's own events that began and have not ended.
func (s *share) countUnfinished(p *Part) {
	r, _ := s.source.Control(context.Background(), probes.CountUnfinished{From: p.from, Until: p.until})
	if r.Unfinished > 0 {
		p.sink.Count(probes.Unfinished, r.Unfinished)
	}
}

// Push gives each part its rows, of events that begin when they end.
func (s *share) Push(b *batch.Batch) { s.PushBegun(b, nil) }

// PushBegun gives each part its rows. Batches are immutable: parts have them
// together.
func (s *share) PushBegun(b *batch.Batch, begun []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		if own := p.rows(b, begun); own != nil {
			p.sink.Push(own)
		}
	}
	b.Release()
}

// Partial gives partial rows to all parts.
func (s *share) Partial(b *batch.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		if !p.joining {
			p.sink.Partial(b.Retain())
		}
	}
	b.Release()
}

// Watermark holds for all parts.
func (s *share) Watermark(t int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		p.sink.Watermark(t)
	}
}

// Lost is a loss of each part that there was.
func (s *share) Lost(cause string, n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		if !p.joining {
			p.sink.Lost(cause, n)
		}
	}
}

// Count counts for each part that there was.
func (s *share) Count(cause string, n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		switch {
		case cause == probes.Unfinished:
			s.countUnfinished(p)
		case !p.joining:
			p.sink.Count(cause, n)
		}
	}
}

// End ends all parts.
func (s *share) End(err error) {
	s.shares.forget(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		p.phase.Store(uint32(partLeft))
		p.sink.End(err)
	}
	s.parts, s.phase = nil, shareOver
}

// rounds are calls of Collect, of which one serves all that wait for it.
type rounds struct {
	working sync.Mutex // held while the source collects
	turn    sync.Mutex
	next    *round // has not begun
}

type round struct {
	once sync.Once
	err  error
}

// collect runs f, once for all who call while it waits for the round before: f
// gives them what happened before it began.
func (r *rounds) collect(f func() error) error {
	r.turn.Lock()
	if r.next == nil {
		r.next = &round{}
	}
	mine := r.next
	r.turn.Unlock()
	mine.once.Do(func() {
		r.working.Lock()
		defer r.working.Unlock()
		r.turn.Lock()
		r.next = nil
		r.turn.Unlock()
		mine.err = f()
	})
	return mine.err
}

var (
	_ probes.Source     = (*Part)(nil)
	_ probes.SharedSink = (*share)(nil)
)

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

// Shares holds the acquisitions that running queries can join. Queries with the
// same acquisition use one source: one set of probes, one sampler.
//
// The leaf of a plan is shared with everything that its source does: the
// condition tested in the kernel, and the first stage of an aggregate, since
// its partial sums since the previous ones are valid for any query. The
// operators above hold what their query has seen since it began, and are not
// shared. Sources that differ in anything are not shared: one link with its own
// short program each is the cheapest for the kernel.
type Shares struct {
	mu   sync.Mutex
	open map[string]*share // by Part.key
}

// share is one acquisition, and the sink of its source.
//
// Locks, in this order: those of rounds, life, the source's own, mu, and those of sinks.
type share struct {
	shares *Shares
	key    string

	life sync.Mutex // held while parts start or end

	mu     sync.Mutex // held while the source delivers
	phase  sharePhase
	source probes.Source // set once the share is open
	parts  []*Part

	joins, leaves, collects rounds
}

// sharePhase is a phase in the life of a share. A share moves from each phase
// to the next, under share.mu: it is opened by the first part, which starts its
// source, and is over when the source has ended, the last part ends, or the
// source could not be started or divided. Parts join only an open share.
type sharePhase uint8

const (
	shareVacant sharePhase = iota // no source runs
	shareOpen
	shareOver
)

func New() *Shares { return &Shares{open: map[string]*share{}} }

// Offer returns a Part for a query's source, given its Info, or nil if the
// source cannot be shared. Only sources that do not wait for their consumer
// are: otherwise the slowest part would delay the others.
func (all *Shares) Offer(own probes.Source, i *probes.Info, spec *plan.Acquire, query func() int64) *Part {
	if i.Identity == "" || !i.Live || spec.Settings.Unshared || spec.Out.Time < 0 {
		return nil
	}
	key, ok := rules.Fingerprint(spec)
	if !ok {
		return nil
	}
	return &Part{shares: all, own: own, spec: spec, key: fmt.Sprintf("%s %+v %t %t %s %s", key, spec.Settings, spec.Lines, spec.Whole, spec.Target.Viewer.Identity(), i.Identity), query: query}
}

// get returns the acquisition with a key, creating it if there is none.
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

// forget prevents further parts from joining s.
func (all *Shares) forget(s *share) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.open[s.key] == s {
		delete(all.open, s.key)
	}
}

// Queries returns the ids of the queries that share each running source.
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

// ids returns the queries of all parts except one.
func (s *share) ids(but *Part) (ids []int64) {
	for _, p := range s.parts {
		if p != but {
			ids = append(ids, p.query())
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// join starts p. It returns false if the acquisition is over.
func (s *share) join(ctx context.Context, p *Part) (bool, error) {
	err := s.joins.do(p, func(parts []*Part) error { return s.admit(ctx, parts) })
	switch {
	case p.refused != nil:
		return false, p.refused
	case p.share != s: // it was over, or has failed
		return false, err
	case s.source == p.own: // another part's error ends the rows of this one, too
		return true, nil
	}
	_ = p.own.Stop() // it was prepared, and holds open files
	return true, err
}

// admit starts parts: all of them at one cut, but the first part of all, which starts the source.
func (s *share) admit(ctx context.Context, parts []*Part) error {
	s.life.Lock()
	defer s.life.Unlock()
	s.mu.Lock()
	if s.phase == shareVacant {
		p := parts[0]
		parts = parts[1:]
		s.phase, s.source, s.parts = shareOpen, p.own, []*Part{p}
		p.join(s)
		s.mu.Unlock()
		// The source outlives the query that started it.
		if p.refused = p.own.Start(context.WithoutCancel(ctx), s, p.options); p.refused != nil {
			p.phase.Store(uint32(partAlone))
			s.end()
			return nil
		}
		s.mu.Lock()
	}
	open := s.phase == shareOpen
	s.mu.Unlock()
	if !open || len(parts) == 0 {
		return nil
	}
	joined := false
	err := s.divide(func(c probes.Cut) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if joined = s.phase == shareOpen; !joined {
			return
		}
		for _, p := range parts {
			p.from, p.joining = c, true
			s.parts = append(s.parts, p)
			p.join(s)
			if c.Unobserved > 0 {
				p.sink.Count(probes.Unobserved, c.Unobserved)
			}
		}
	}, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, p := range parts {
			p.joining = false
		}
	})
	if err != nil {
		s.fail(err)
	}
	if !joined {
		s.end()
	}
	return err
}

// dismiss ends parts: all of them at one cut, and with the last part the acquisition.
func (s *share) dismiss(leaving []*Part) error {
	s.life.Lock()
	defer s.life.Unlock()
	s.mu.Lock()
	parts := slices.DeleteFunc(slices.Clone(s.parts), func(p *Part) bool { return !slices.Contains(leaving, p) })
	all := len(parts) == len(s.parts)
	s.mu.Unlock()
	switch {
	case len(parts) == 0:
		return nil
	case all:
		s.end()
		return s.source.Stop()
	}
	left := false
	err := s.divide(func(c probes.Cut) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, p := range parts {
			p.until = c
		}
	}, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if left = s.phase == shareOpen; left {
			for _, p := range parts {
				s.leave(p)
			}
		}
	})
	if err != nil {
		s.fail(err)
	}
	if !left {
		return s.source.Stop() // the source stops with its last part
	}
	return nil
}

// divide divides the source's events at a cut.
func (s *share) divide(begin func(probes.Cut), done func()) error {
	_, err := s.source.Control(context.Background(), probes.Divide{Begin: begin, Done: done})
	return err
}

// leave ends p, which has received all of its events.
func (s *share) leave(p *Part) {
	s.parts = slices.DeleteFunc(s.parts, func(o *Part) bool { return o == p })
	p.phase.Store(uint32(partLeft))
	s.countUnfinished(p)
	p.sink.End(nil)
}

// end prevents further parts from joining. The caller holds life.
func (s *share) end() {
	s.mu.Lock()
	s.phase = shareOver
	s.mu.Unlock()
	s.shares.forget(s)
}

// fail ends the acquisition with an error, since its events are incomplete. The
// caller holds life.
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

// Push passes each part its rows, of events that begin when they end.
func (s *share) Push(b *batch.Batch) { s.PushBegun(b, nil) }

// PushBegun passes each part its rows. Batches are immutable and are shared by
// the parts.
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

// Partial passes partial rows to all parts.
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

// Watermark passes a watermark to all parts.
func (s *share) Watermark(t int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		p.sink.Watermark(t)
	}
}

// Lost counts a loss for each part that existed at the time.
func (s *share) Lost(cause string, n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		if !p.joining {
			p.sink.Lost(cause, n)
		}
	}
}

// Count counts for each part that existed at the time.
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

var (
	_ probes.Source     = (*Part)(nil)
	_ probes.SharedSink = (*share)(nil)
)

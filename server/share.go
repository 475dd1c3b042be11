package server

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/rules"
	"endoscope/probes"
)

// shares are the acquisitions that running queries can have a part in. Queries
// that acquire the same have one source for it: one set of probes, one sampler.
//
// What is shared is the leaf of a plan with everything that its source does: the
// condition that the kernel tests, and the first stage of an aggregate, since
// that gives sums of what happened since the sums before, which are anybody's.
// The operators above hold what their query has seen since it began, and are its
// own. Sources that differ in anything are not shared: one link with its own
// short program each is the cheapest that the kernel can do for them.
type shares struct {
	mu   sync.Mutex
	open map[string]*share // by part.key
}

// share is one acquisition, and the sink of its source.
//
// Locks, in this order: life, what the source takes, mu, and those of sinks.
type share struct {
	of  *shares
	key string

	life sync.Mutex // held while a part begins or ends

	mu     sync.Mutex // held while the source gives
	phase  sharePhase
	source probes.Source // once it is open
	parts  []*part

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

// partPhase is where a part is in its life. It goes from each phase to the next, under
// share.mu. A part that is alone controls the query's own source, one that has joined
// leaves by a cut, and one that has left has nothing to stop.
type partPhase uint32

const (
	partAlone partPhase = iota
	partJoined
	partLeft
)

// part is one query's part in an acquisition. To its query it is the source.
type part struct {
	of    *shares
	own   probes.Source // the query's; started if it is the first
	spec  *plan.Acquire
	key   string // what is acquired
	query *query

	phase atomic.Uint32 // a partPhase
	share *share        // once it has joined
	sink  probes.Sink
	// options are of the source, if the part is the first.
	options probes.Options
	// The rows of this part are of events that began after one cut and ended before
	// another; of which zero is none.
	from, until probes.Cut
	joining     bool // what is no row is of before the part
}

func newShares() *shares { return &shares{open: map[string]*share{}} }

// offer makes a query's source, with its Info, one that others can have a part in; nil
// if that is not possible. Only sources that nobody waits for are: of the parts of
// another one the slowest would hold up the rest.
func (all *shares) offer(own probes.Source, i *probes.Info, spec *plan.Acquire, q *query) *part {
	if i.Identity == "" || !i.Live || spec.Settings.Unshared || spec.Out.Time < 0 {
		return nil
	}
	key, ok := rules.Fingerprint(spec)
	if !ok {
		return nil
	}
	return &part{of: all, own: own, spec: spec, key: fmt.Sprintf("%s %+v %s %s", key, spec.Settings, spec.Target.Viewer.Identity(), i.Identity), query: q}
}

// get returns the acquisition with a key, a new one if there is none.
func (all *shares) get(key string) *share {
	all.mu.Lock()
	defer all.mu.Unlock()
	s := all.open[key]
	if s == nil {
		s = &share{of: all, key: key}
		all.open[key] = s
	}
	return s
}

// forget lets s have no more parts.
func (all *shares) forget(s *share) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.open[s.key] == s {
		delete(all.open, s.key)
	}
}

// queries are those that have a part in an acquisition, by the source that runs.
func (all *shares) queries() map[probes.Source][]int64 {
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

// others are the queries that acquire what p does.
func (p *part) others() []int64 {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	s := p.of.open[p.key]
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids(p)
}

// ids are the queries of all parts but one.
func (s *share) ids(but *part) (ids []int64) {
	for _, p := range s.parts {
		if p != but {
			ids = append(ids, p.query.id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// sharedWith are the other queries that have a part in what q acquires.
func (q *query) sharedWith() (ids []int64) {
	for _, f := range q.feeds {
		if f.part != nil {
			ids = append(ids, f.part.others()...)
		}
	}
	slices.Sort(ids)
	return slices.DeleteFunc(slices.Compact(ids), func(id int64) bool { return id == q.id })
}

// listed writes numbers of queries.
func listed(ids []int64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ", "), "[]")
}

// Start takes part in the acquisition, or begins it.
func (p *part) Start(ctx context.Context, sink probes.Sink, o probes.Options) error {
	p.sink, p.options = sink, o
	for {
		joined, err := p.of.get(p.key).join(ctx, p)
		if joined || err != nil {
			return err
		}
	}
}

// join begins p. It reports false if the acquisition is over.
func (s *share) join(ctx context.Context, p *part) (bool, error) {
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
		s.phase, s.source, s.parts = shareOpen, p.own, []*part{p}
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

// join makes p one of s. s.mu is held.
func (p *part) join(s *share) {
	p.share = s
	p.phase.Store(uint32(partJoined))
}

// is reports whether the part is in a phase.
func (p *part) is(phase partPhase) bool { return partPhase(p.phase.Load()) == phase }

// Stop ends the part, and with the last one the acquisition.
func (p *part) Stop() error {
	if p.is(partAlone) {
		return p.own.Stop()
	}
	s := p.share
	s.life.Lock()
	defer s.life.Unlock()
	s.mu.Lock()
	last := len(s.parts) == 1
	left := p.is(partLeft)
	s.mu.Unlock()
	switch {
	case left:
		return nil
	case last:
		s.end()
		return s.source.Stop()
	}
	err := s.divide(func(c probes.Cut) {
		s.mu.Lock()
		defer s.mu.Unlock()
		p.until = c
	}, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if left = s.phase == shareOpen; left {
			s.leave(p)
		}
	})
	if err != nil {
		s.fail(err)
	}
	if !left {
		return s.source.Stop() // it is ending
	}
	return nil
}

// divide divides what the source gives.
func (s *share) divide(begin func(probes.Cut), done func()) error {
	_, err := s.source.Control(context.Background(), probes.Divide{Begin: begin, Done: done})
	return err
}

// leave ends p, which has all that is its.
func (s *share) leave(p *part) {
	s.parts = slices.DeleteFunc(s.parts, func(o *part) bool { return o == p })
	p.phase.Store(uint32(partLeft))
	s.countUnfinished(p)
	p.sink.End(nil)
}

// end lets no part begin any more. life is held.
func (s *share) end() {
	s.mu.Lock()
	s.phase = shareOver
	s.mu.Unlock()
	s.of.forget(s)
}

// fail ends the acquisition: what it gave is not all that there was. life is held.
func (s *share) fail(err error) {
	s.end()
	s.End(err)
	_ = s.source.Stop()
}

// countUnfinished counts p's own events that began and have not ended.
func (s *share) countUnfinished(p *part) {
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

// rows returns those of b that are p's, with a reference; nil: none. begun is nil
// of events that begin when they end.
func (p *part) rows(b *batch.Batch, begun []int64) *batch.Batch {
	if p.from == (probes.Cut{}) && p.until == (probes.Cut{}) {
		return b.Retain()
	}
	times := b.Cols[p.spec.Out.Time].Int
	if begun == nil {
		begun = times
	}
	until := int64(math.MaxInt64)
	if p.until != (probes.Cut{}) {
		until = p.until.At
	}
	sel := make([]uint16, 0, b.Len())
	for i := range b.Len() {
		if row := b.Row(i); begun[row] >= p.from.At && times[row] < until {
			sel = append(sel, uint16(row))
		}
	}
	switch len(sel) {
	case b.Len():
		return b.Retain()
	case 0:
		return nil
	}
	return b.View(sel)
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
	s.of.forget(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		p.phase.Store(uint32(partLeft))
		p.sink.End(err)
	}
	s.parts, s.phase = nil, shareOver
}

// running is the source that acquires for p, or will.
func (p *part) running() probes.Source {
	if p.is(partAlone) {
		return p.own
	}
	return p.share.source
}

// Info implements probes.Source. Sites are those of the source that acquires; notices
// are those of before, and those of when it was armed. Refusal is nil where the cost is
// borne already. What would concern all parts is not offered: gates, standby,
// detaching and suspending; nor is another division.
func (p *part) Info() probes.Info { return p.describe(p.own.Info()) }

// describe is Info, given that of the query's own source.
func (p *part) describe(own probes.Info) probes.Info {
	i := probes.Info{
		Sites: own.Sites, Notices: own.Notices, Residual: own.Residual, Live: true,
		Aggregates: own.Aggregates, Aggregation: own.Aggregation, Resends: own.Resends,
	}
	if running := p.running(); running != p.own {
		r := running.Info()
		i.Sites, i.Notices = r.Sites, slices.Concat(own.Notices, r.Notices)
	}
	if own.Refusal != nil && len(p.others()) == 0 {
		i.Refusal = own.Refusal
	}
	return i
}

// Load implements probes.Source: it is forwarded to the query's own source. It is not
// known yet whether another query will be there when it starts.
func (p *part) Load(ctx context.Context, o probes.Options) error { return p.own.Load(ctx, o) }

// Control implements probes.Source. Collect is combined: one call serves all parts that
// wait for one. Resend is forwarded: all parts are given everything again. All other
// commands are refused, see Info.
func (p *part) Control(ctx context.Context, c probes.Command) (r probes.Reply, err error) {
	switch c.(type) {
	case probes.Collect, probes.Resend:
	default:
		return probes.Unsupported(c)
	}
	if p.is(partAlone) {
		return p.own.Control(ctx, c) // which has not been started
	}
	s := p.share
	if _, ok := c.(probes.Collect); ok {
		return r, s.collect(func() error {
			_, err := s.source.Control(ctx, c)
			return err
		})
	}
	return s.source.Control(ctx, c)
}

// Stats implements probes.Source: that of the source that acquires, for all its parts.
func (p *part) Stats() probes.Stats { return p.running().Stats() }

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
	_ probes.Source     = (*part)(nil)
	_ probes.SharedSink = (*share)(nil)
)

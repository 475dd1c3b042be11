package sharing

import (
	"context"
	"math"
	"slices"
	"sync/atomic"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/probes"
)

// Part is one query's share of an acquisition. To its query it is the source.
type Part struct {
	shares *Shares
	own    probes.Source // the query's own source; started if it is the first part
	spec   *plan.Acquire
	key    string       // identifies the acquisition
	query  func() int64 // returns the query's id; 0 before it is listed

	phase atomic.Uint32 // a partPhase
	share *share        // set once the part has joined
	// refused is why the part's own source could not be started.
	refused error
	sink    probes.Sink
	// options of the source, if the part is the first.
	options probes.Options
	// The part receives rows of events that began after the cut from and ended
	// before the cut until; zero means unlimited.
	from, until probes.Cut
	joining     bool // counts and losses precede the part
}

// partPhase is a phase in the life of a part. A part moves from each phase to
// the next, under share.mu. An alone part controls the query's own source; a
// joined one leaves by a cut; one that has left has nothing to stop.
type partPhase uint32

const (
	partAlone partPhase = iota
	partJoined
	partLeft
)

// Start joins the acquisition, or starts it.
func (p *Part) Start(ctx context.Context, sink probes.Sink, o probes.Options) error {
	p.sink, p.options = sink, o
	for {
		joined, err := p.shares.get(p.key).join(ctx, p)
		if joined || err != nil {
			return err
		}
	}
}

// join makes p a part of s. The caller holds s.mu.
func (p *Part) join(s *share) {
	p.share = s
	p.phase.Store(uint32(partJoined))
}

// is reports whether the part is in a phase.
func (p *Part) is(phase partPhase) bool { return partPhase(p.phase.Load()) == phase }

// Stop ends the part, and with the last part the acquisition.
func (p *Part) Stop() error {
	if p.is(partAlone) {
		return p.own.Stop()
	}
	return p.share.leaves.do(p, p.share.dismiss)
}

// rows returns the rows of b that belong to p, with a reference; nil: none.
// begun is nil for events that begin when they end.
func (p *Part) rows(b *batch.Batch, begun []int64) *batch.Batch {
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

// Others returns the ids of the other queries that share p's acquisition.
func (p *Part) Others() []int64 {
	p.shares.mu.Lock()
	defer p.shares.mu.Unlock()
	s := p.shares.open[p.key]
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids(p)
}

// running returns the source that acquires for p, or will.
func (p *Part) running() probes.Source {
	if p.is(partAlone) {
		return p.own
	}
	return p.share.source
}

// Info implements probes.Source. Sites are those of the running source; notices
// are its own, and those from when it was armed. Refusal is nil if the cost is
// already incurred. What would affect all parts is not offered: gates, standby,
// detaching and suspending; nor is another division.
func (p *Part) Info() probes.Info { return p.Describe(p.own.Info()) }

// Describe returns Info, given that of the query's own source.
func (p *Part) Describe(own probes.Info) probes.Info {
	i := probes.Info{
		Sites: own.Sites, Notices: own.Notices, Residual: own.Residual, Live: true,
		Aggregates: own.Aggregates, Aggregation: own.Aggregation, Resends: own.Resends,
	}
	if running := p.running(); running != p.own {
		r := running.Info()
		i.Sites, i.Notices = r.Sites, slices.Concat(own.Notices, r.Notices)
	}
	if own.Refusal != nil && len(p.Others()) == 0 {
		i.Refusal = own.Refusal
	}
	return i
}

// Load implements probes.Source. It is forwarded to the query's own source,
// since it is not known yet whether another query will be running at Start.
func (p *Part) Load(ctx context.Context, o probes.Options) error { return p.own.Load(ctx, o) }

// Control implements probes.Source. Collect is combined: one call serves all
// parts that wait for one. Resend is forwarded, and all parts receive
// everything again. All other commands are refused, see Info.
func (p *Part) Control(ctx context.Context, c probes.Command) (r probes.Reply, err error) {
	switch c.(type) {
	case probes.Collect, probes.Resend:
	default:
		return probes.Unsupported(c)
	}
	if p.is(partAlone) {
		return p.own.Control(ctx, c) // the source has not been started
	}
	s := p.share
	if _, ok := c.(probes.Collect); ok {
		// The round begins after the requests of all that it serves.
		return r, s.collects.do(p, func([]*Part) error {
			_, err := s.source.Control(ctx, c)
			return err
		})
	}
	return s.source.Control(ctx, c)
}

// Stats implements probes.Source. It returns the running source's, for all its
// parts.
func (p *Part) Stats() probes.Stats { return p.running().Stats() }

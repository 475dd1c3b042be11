package fleet

import (
	"context"
	"errors"
	"math"
	"time"

	"endoscope/operators/agg"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/plan/planpb"
	"endoscope/server/wire"
)

// takeover is how long the windows of a shard may be missing while another reducer takes over.
const takeover = 25 * time.Second

// Reduced are the states of several hosts, merged into states of the same columns: for each
// window; with EMIT EVERY each time that all hosts have sent their totals; or once, at the end.
// A root combines it with others as it combines hosts.
type Reduced struct {
	*rounds
	share *wire.Share
	last  *Merged
}

// Merged says what is in the result before a Flush of a Reduced.
type Merged struct {
	// Total: it replaces the ones before. Otherwise it is a window that ends at End, ns since
	// 1970, or with math.MaxInt64 the result of the whole query.
	Total  bool
	End    int64
	Covers []Covered // but for a window
}

// Covered is a result of a host that has been merged.
type Covered struct {
	Host, Run string
	Round     uint64 // of the host
	part      *part
}

// Unmerged is the error of hosts of which none executes a query in a way that can be merged.
type Unmerged struct {
	Hosts []wire.HostState
	Err   error
}

func (e *Unmerged) Error() string { return e.Err.Error() }

// Lost reports true: others go on.
func (e *Unmerged) Lost() bool { return true }

// Reduce merges the states that the hosts of a published query send. Its errors may be
// *Unmerged.
func Reduce(ctx context.Context, p Published) (*Reduced, error) {
	s := sessionOver(p)
	s.reduces, s.limits.answering = true, reducing
	fail := func(err error, parts []*part) (*Reduced, error) {
		for _, x := range parts {
			if x.res != nil {
				_ = x.res.Close()
				x.res, x.err = nil, err
			}
		}
		p.Close()
		if parts == nil {
			return nil, err
		}
		return nil, &Unmerged{states(parts), err}
	}
	parts := s.executed(ctx, s.answer)
	if err := ctx.Err(); err != nil {
		return fail(err, nil)
	}
	of, err := agreed(parts, true)
	switch {
	case err != nil:
	case of == nil:
		err = errors.New("no host of the shard answers")
	case !of.Merges() && !of.Exchange.Nothing:
		err = errors.New("the results of the hosts are not merged before the root")
	}
	if err != nil {
		return fail(err, parts)
	}
	of.reduces = true
	encoded, err := planpb.Encode(of.Fragment)
	if err != nil {
		return fail(err, parts)
	}
	r, err := s.result(parts, of)
	if err != nil {
		return fail(err, nil)
	}
	p.Settle()
	return &Reduced{rounds: r.(*rounds), share: &wire.Share{Plan: encoded, Columns: of.cols, Running: of.running}}, nil
}

// reduce merges states of groups, and releases these.
func (u *upper) reduce(all []*batch.Batch) (events []wire.Event, n uint64, err error) {
	defer recoverError(&err)
	if len(all) == 0 {
		return nil, 0, nil
	}
	for _, b := range agg.MergePartials(u.states(), all) {
		n += uint64(b.Len())
		events = append(events, wire.Event{Kind: wire.Rows, Batch: b})
	}
	return events, n, nil
}

// mergedOf returns what is in the next result.
func (r *rounds) mergedOf(end int64) *Merged {
	m := &Merged{End: end, Total: r.by == plan.PerRound}
	if r.by == plan.PerWindow {
		return m
	}
	if r.by == plan.Once {
		m.End = math.MaxInt64
	}
	for _, p := range r.parts {
		if p.has {
			m.Covers = append(m.Covers, Covered{p.name, p.res.Info().Run, p.latest, p})
		}
	}
	return m
}

// Columns implements wire.Result: the columns of the states.
func (r *Reduced) Columns() []wire.Column { return r.gathered.cols }

// Keys returns how many columns after the first identify a group.
func (r *Reduced) Keys() int {
	if p := r.upper.states(); p != nil {
		return len(p.Keys)
	}
	return 0 // the hosts have no rows
}

// Totals reports whether each of its results replaces the ones before.
func (r *Reduced) Totals() bool { return r.by == plan.PerRound }

// Info implements wire.Result.
func (r *Reduced) Info() wire.Info {
	s := *r.share
	s.Running += int64(time.Since(r.began))
	return wire.Info{Share: &s}
}

// Next implements wire.Result. After a Flush, Merged says what is in the rows before it.
func (r *Reduced) Next(ctx context.Context) (wire.Event, error) {
	ev, err := r.advance(ctx, r.rounds)
	if err == nil && ev.Kind == wire.Flush {
		r.last, r.merged = r.merged[0], r.merged[1:]
	}
	return ev, err
}

// Merged returns what is in the result before the last Flush.
func (r *Reduced) Merged() *Merged { return r.last }

// Stored lets hosts drop what the root has of a result. It may be called while Next is.
func (r *Reduced) Stored(m *Merged) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range m.Covers {
		if of, ok := c.part.res.(keeping); ok {
			of.Stored(c.Round)
		}
	}
	if r.by == plan.PerWindow {
		for _, p := range r.parts {
			p.stored(m.End)
		}
	}
}

// Summary implements wire.Result. Its hosts are those that have not answered or have gaps.
func (r *Reduced) Summary() wire.Summary {
	sum := r.rounds.Summary()
	late := sum.Hosts[:0]
	for _, h := range sum.Hosts {
		if h.State != wire.HostAnswered || h.Gaps != nil {
			late = append(late, h)
		}
	}
	sum.Hosts = late
	return sum
}

var _ wire.Result = (*Reduced)(nil)

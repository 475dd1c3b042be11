package server

import (
	"context"
	"endoscope/planner/catalog"
	"slices"
	"sync/atomic"

	"endoscope/operators"
	"endoscope/operators/agg"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/server/grant"
)

// feed is the sink of one source: the edge where a probe's goroutine meets the
// query's.
type feed struct {
	leaf    int
	spec    *plan.Acquire
	source  probes.Source // own, or a part in a source that others share
	info    probes.Info   // of source, as it was prepared
	own     probes.Source // the query's own
	ownInfo probes.Info
	part    *part          // source, if it is shared; nil: it is not
	options probes.Options // of Load and Start
	live    bool
	asked   *demand // of a source that gives its value when it is asked
	holder  *holder // of a source whose rows are held until they are needed; nil: none
	q       *queue
	t       *tally
	account *grant.Account // of whoever runs the query; nil: nothing is counted
	rows    atomic.Uint64  // taken from the source
}

// newFeed returns the feed of a leaf, by its number among those of its query.
func newFeed(leaf int, spec *plan.Acquire, own probes.Source, q *queue, t *tally) *feed {
	i := own.Info()
	return &feed{leaf: leaf, spec: spec, source: own, info: i, own: own, ownInfo: i, live: i.Live, q: q, t: t}
}

// share makes the feed's source a part in one that others share.
func (f *feed) share(p *part) { f.source, f.info, f.part = p, p.describe(f.ownInfo), p }

// unshare makes the feed's source the query's own. It has not been started.
func (f *feed) unshare() { f.source, f.info, f.part = f.own, f.ownInfo, nil }

// control gives the source a command that has no reply.
func (f *feed) control(c probes.Command) error {
	_, err := f.source.Control(context.Background(), c)
	return err
}

// attaches reports whether events come from what is attached in the kernel, and
// are not read by the engine.
func (f *feed) attaches() bool {
	return slices.ContainsFunc(f.source.Info().Sites, func(s probes.Site) bool { return s.Address != 0 })
}

// aboutTarget reports whether the feed ends with the processes of a target.
func (f *feed) aboutTarget() bool {
	s := catalog.Find(f.spec.Stream)
	return s != nil && s.Process
}

// overRate is the cause of what a user's events were too many.
const overRate = "your limit of events per second"

func (f *feed) Push(b *batch.Batch) {
	n := uint64(b.Len())
	f.t.acquired.Add(n)
	f.rows.Add(n)
	if !f.account.Admit(n) {
		f.missed(overRate, n)
		b.Release()
		return
	}
	if !f.q.push(item{leaf: f.leaf, batch: b}, !f.live) {
		b.Release()
		if !f.q.over() { // else nobody wants the query's result any more
			f.missed("query too slow", n)
		}
	}
}

func (f *feed) Partial(b *batch.Batch) {
	f.t.groups.Add(uint64(b.Len()))
	if !f.q.push(item{leaf: f.leaf, batch: b, partial: f.spec.Partial}, false) {
		if !f.q.over() {
			f.Lost("query too slow", agg.PartialEvents(f.spec.Partial, b))
		}
		b.Release()
	}
}

func (f *feed) Watermark(t int64) {
	f.q.push(item{leaf: f.leaf, signal: operators.Signal{Kind: operators.Watermark, Time: t}}, false)
}

// missed counts rows that the source has given and nobody took.
func (f *feed) missed(cause string, n uint64) {
	f.Lost(cause, n)
	if f.info.Resends {
		_ = f.control(probes.Resend{}) // it is supported
	}
}

// Lost counts, and has the operators know where in their rows it was.
func (f *feed) Lost(cause string, n uint64) {
	if n == 0 {
		return
	}
	f.t.addLost(cause, n)
	f.q.push(item{leaf: f.leaf, signal: operators.Signal{Kind: operators.Gap, Cause: cause}}, false)
}

func (f *feed) Count(cause string, n uint64) { f.t.addNoted(cause, n) }

func (f *feed) End(err error) { f.q.push(item{leaf: f.leaf, end: true, err: err}, false) }

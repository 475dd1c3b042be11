package flow

import (
	"context"
	"slices"
	"sync/atomic"

	"endoscope/operators"
	"endoscope/operators/agg"
	"endoscope/operators/batch"
	"endoscope/operators/graph"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/server/grant"
	"endoscope/server/sharing"
)

// Feed is the sink of one source. The probe's goroutine calls it; the query's
// runner takes the rows from the queue.
type Feed struct {
	Leaf    int
	Spec    *plan.Acquire
	Source  probes.Source // own, or a part of a shared source
	Info    probes.Info   // Info of Source, as it was prepared
	Own     probes.Source // the query's own
	OwnInfo probes.Info
	Part    *sharing.Part  // Source, if it is shared; otherwise nil
	Options probes.Options // for Load and Start
	Live    bool
	Asked   *demand // of a source that is sampled on demand
	Holder  *Holder // of a source whose rows are held until they are needed; otherwise nil
	Queue   *Queue
	Tally   *Tally
	Account *grant.Account // of the user who runs the query; nil: nothing is counted
	Rows    atomic.Uint64  // number of rows taken from the source
	enough  atomic.Bool    // the query needs no more rows
	unseen  uint64         // child processes that are not observed
}

// NewFeed returns the feed of a leaf, given its number among the leaves of its
// query.
func NewFeed(leaf int, spec *plan.Acquire, own probes.Source, q *Queue, t *Tally) *Feed {
	i := own.Info()
	return &Feed{Leaf: leaf, Spec: spec, Source: own, Info: i, Own: own, OwnInfo: i, Live: i.Live, Queue: q, Tally: t}
}

// Share replaces the feed's source by a part of a shared one.
func (f *Feed) Share(p *sharing.Part) { f.Source, f.Info, f.Part = p, p.Describe(f.OwnInfo), p }

// Unshare restores the query's own source, which has not been started.
func (f *Feed) Unshare() { f.Source, f.Info, f.Part = f.Own, f.OwnInfo, nil }

// Control sends the source a command that has no reply.
func (f *Feed) Control(c probes.Command) error {
	_, err := f.Source.Control(context.Background(), c)
	return err
}

// Attaches reports whether the events come from something attached in the
// kernel, rather than from a reader in the engine.
func (f *Feed) Attaches() bool {
	return slices.ContainsFunc(f.Source.Info().Sites, func(s probes.Site) bool { return s.Address != 0 })
}

// AboutTarget reports whether the feed ends with the processes of a target.
func (f *Feed) AboutTarget() bool {
	s := catalog.Find(f.Spec.Stream)
	return s != nil && s.Process
}

// overRate is the cause of events lost to a user's rate limit.
const overRate = "your limit of events per second"

// Enough tells the feed that the query has all its rows, by LIMIT. What a source that waits
// for its consumer reports from now on comes after these rows, and is not counted. A live
// source may have lost events before them that it reports only now: these still are. Calls
// under way can no longer give a row that was wanted.
func (f *Feed) Enough() { f.enough.Store(true) }

func (f *Feed) Push(b *batch.Batch) {
	if f.enough.Load() {
		b.Release()
		return
	}
	n := uint64(b.Len())
	f.Tally.Acquired.Add(n)
	f.Rows.Add(n)
	if !f.Account.Admit(n) {
		f.missed(overRate, n)
		b.Release()
		return
	}
	if !f.Queue.Push(Item{Leaf: f.Leaf, Batch: b}, !f.Live) {
		b.Release()
		if !f.Queue.Closed() { // otherwise the query has ended
			f.missed("query too slow", n)
		}
	}
}

func (f *Feed) Partial(b *batch.Batch) {
	f.Tally.Groups.Add(uint64(b.Len()))
	if !f.Queue.Push(Item{Leaf: f.Leaf, Batch: b, Partial: f.Spec.Partial}, false) {
		if !f.Queue.Closed() {
			f.Lost("query too slow", agg.PartialEvents(f.Spec.Partial, b))
		}
		b.Release()
	}
}

func (f *Feed) Watermark(t int64) {
	f.Queue.Push(Item{Leaf: f.Leaf, Signal: operators.Signal{Kind: operators.Watermark, Time: t}}, false)
}

// Recalled implements probes.RecallSink.
func (f *Feed) Recalled(number uint64) {
	f.Queue.Push(Item{Leaf: f.Leaf, Signal: operators.Signal{Kind: operators.Barrier, ID: number}}, false)
}

// missed counts rows of the source that were dropped here.
func (f *Feed) missed(cause string, n uint64) {
	f.Lost(cause, n)
	if f.Info.Resends {
		_ = f.Control(probes.Resend{}) // the source supports Resend
	}
}

// Lost counts n lost events, and queues a gap that marks their position.
func (f *Feed) Lost(cause string, n uint64) {
	if n == 0 {
		return
	}
	if f.Live {
		f.Tally.AddLost(cause, n)
	} else {
		f.Queue.Push(Item{Leaf: f.Leaf, Fault: &Fault{cause, n, true}}, false)
	}
	f.Queue.Push(Item{Leaf: f.Leaf, Signal: operators.Signal{Kind: operators.Gap, Cause: cause}}, false)
}

func (f *Feed) Count(cause string, n uint64) {
	switch {
	case f.enough.Load() && cause == probes.Unfinished:
	case cause == probes.Unobserved:
		f.unseen += n
		f.Tally.NoteUnobserved(f.Spec.Target.String(), f.unseen)
	case f.Live:
		f.Tally.AddNoted(cause, n)
	default:
		f.Queue.Push(Item{Leaf: f.Leaf, Fault: &Fault{cause, n, false}}, false)
	}
}

// Charge counts a fault of the feed's source.
func (f *Feed) Charge(x *Fault) {
	switch {
	case f.enough.Load():
	case x.Lost:
		f.Tally.AddLost(x.Cause, x.N)
	default:
		f.Tally.AddNoted(x.Cause, x.N)
	}
}

func (f *Feed) End(err error) { f.Queue.Push(Item{Leaf: f.Leaf, End: true, Err: err}, false) }

// Aggregates reports whether the feed's source runs the first stage of an aggregate.
func (f *Feed) Aggregates() bool { return f.Spec.Partial != nil && f.Info.Aggregates }

// OnDemand makes the source one that is sampled, and returns the function that
// samples it.
func (f *Feed) OnDemand() (sample func(context.Context) error) {
	f.Asked = &demand{Feed: f}
	return f.Asked.sample
}

// Sink returns the sink for f's source.
func (f *Feed) Sink(leaves []graph.Leaf) probes.Sink {
	if f.Holder != nil {
		return f.Holder
	}
	if f.Asked == nil {
		return f
	}
	f.Asked.to = leaves[f.Leaf]
	return f.Asked
}

// Rank returns the feed's position in the order in which feeds are started.
func (f *Feed) Rank() int {
	switch {
	case f.Asked != nil:
		return 0
	case f.Outlives():
		return 1
	}
	return 2
}

// Outlives reports whether a feed is started before the others and stopped
// after them, so that it sees all that happens to their events: memory that was
// allocated and is not seen released counts as a leak.
func (f *Feed) Outlives() bool { return f.Spec.Stream == catalog.Deallocation }

package server

import (
	"context"

	"endoscope/operators/batch"
	"endoscope/operators/graph"
	"endoscope/probes"
	"endoscope/probes/uprobe"
)

// demand is the sink of a source that is asked for its value (a JOIN with a
// stream that has one at every instant). What the source gives while it is
// asked goes to the operators at once: it is the runner that asks, from within
// the operator that needs the value.
type demand struct {
	*feed
	to  graph.Leaf
	ctx context.Context // of the command Sample that is under way
	err error
}

func (d *demand) Push(b *batch.Batch) {
	defer b.Release()
	d.t.acquired.Add(uint64(b.Len()))
	if d.err == nil {
		_, d.err = d.to.Op.Push(d.ctx, d.to.Port, b)
	}
}

func (d *demand) Partial(b *batch.Batch) { b.Release() }
func (d *demand) Watermark(int64)        {}
func (d *demand) End(error)              {}

// sample asks the source.
func (d *demand) sample(ctx context.Context) error {
	d.ctx, d.err = ctx, nil
	_, err := d.feed.source.Control(ctx, probes.Sample{})
	d.ctx = nil
	if d.err != nil {
		return d.err
	}
	return err
}

// onDemand has the source give its value when it is asked, which the function that is
// returned does.
func (f *feed) onDemand() (sample func(context.Context) error) {
	f.asked = &demand{feed: f}
	return f.asked.sample
}

// sink is what the source of f gives to.
func (f *feed) sink(leaves []graph.Leaf) probes.Sink {
	if f.holder != nil {
		return f.holder
	}
	if f.asked == nil {
		return f
	}
	f.asked.to = leaves[f.leaf]
	return f.asked
}

// rank orders feeds by when they are started.
func (f *feed) rank() int {
	switch {
	case f.asked != nil:
		return 0
	case f.outlives():
		return 1
	}
	return 2
}

// outlives reports whether a feed is acquired before and after others, so that
// what happens to theirs is seen: where memory is not released that was allocated,
// it leaks.
func (f *feed) outlives() bool { return f.spec.Stream == uprobe.Deallocation }

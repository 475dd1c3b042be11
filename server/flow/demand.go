package flow

import (
	"context"

	"endoscope/operators/batch"
	"endoscope/operators/graph"
	"endoscope/probes"
)

// demand is the sink of a source that is asked for its value (a JOIN with a
// stream that has one at every instant). What the source gives while it is
// asked goes to the operators at once: it is the runner that asks, from within
// the operator that needs the value.
type demand struct {
	*Feed
	to  graph.Leaf
	ctx context.Context // of the command Sample that is under way
	err error
}

func (d *demand) Push(b *batch.Batch) {
	defer b.Release()
	d.Tally.Acquired.Add(uint64(b.Len()))
	if d.err == nil {
		_, d.err = d.to.Op.Push(d.ctx, d.to.Port, b)
	}
}

func (d *demand) Partial(b *batch.Batch) { b.Release() }

func (d *demand) Watermark(int64) {}

func (d *demand) End(error) {}

// sample asks the source.
func (d *demand) sample(ctx context.Context) error {
	d.ctx, d.err = ctx, nil
	_, err := d.Feed.Source.Control(ctx, probes.Sample{})
	d.ctx = nil
	if d.err != nil {
		return d.err
	}
	return err
}

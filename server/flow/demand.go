package flow

import (
	"context"

	"endoscope/operators/batch"
	"endoscope/operators/graph"
	"endoscope/probes"
)

// demand is the sink of a source that is sampled on demand (a JOIN with a
// stream that has a value at every instant). Rows of such a sample go to the
// operators at once: the runner takes the sample, from within the operator that
// needs the value.
type demand struct {
	*Feed
	to  graph.Leaf
	ctx context.Context // of the command Sample in progress
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

// sample requests a sample from the source.
func (d *demand) sample(ctx context.Context) error {
	d.ctx, d.err = ctx, nil
	_, err := d.Feed.Source.Control(ctx, probes.Sample{})
	d.ctx = nil
	if d.err != nil {
		return d.err
	}
	return err
}

package testplan

import (
	"endoscope/operators/batch"
)

// Discard takes rows and keeps nothing.
type Discard struct {
	Rows     int
	LostRows uint64
	Ended    chan struct{}
}

func (d *Discard) Push(b *batch.Batch) { d.Rows += b.Len(); b.Release() }

func (*Discard) Partial(b *batch.Batch) { b.Release() }

func (d *Discard) Watermark(int64) {}

func (d *Discard) Lost(cause string, n uint64) { d.LostRows += n }

func (d *Discard) Count(cause string, n uint64) {}

func (d *Discard) End(error) { close(d.Ended) }

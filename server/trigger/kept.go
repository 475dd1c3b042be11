package trigger

import (
	"context"
	"sync"
	"time"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/probes/recall"
)

// kept keeps samples, and publishes them when the watermark has passed an activation: then
// the last ones have arrived.
type kept struct {
	recallOutput
	last    int64 // ns
	batches []*batch.Batch
	began   int64 // time of the first sample; 0: there was none

	mu      sync.Mutex
	waiting []activation
}

// Push implements operators.Operator.
func (o *kept) Push(_ context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	o.tally.Rows.Add(uint64(b.Len()))
	if b.Len() > 0 {
		if o.began == 0 {
			o.began = o.timeOf(b, 0)
		}
		o.batches = append(o.batches, b.Retain())
	}
	return operators.More, nil
}

func (o *kept) timeOf(b *batch.Batch, i int) int64 { return b.Cols[o.time].Int[b.Row(i)] }

// Signal implements operators.Operator.
func (o *kept) Signal(_ context.Context, _ int, s operators.Signal) (operators.Status, error) {
	o.gap(s)
	if s.Kind == operators.Watermark {
		o.serve(s.Time)
	}
	return operators.More, nil
}

func (o *kept) activate(a activation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting = append(o.waiting, a)
}

// serve publishes what activations before a time recall, and drops what none will.
func (o *kept) serve(until int64) {
	o.mu.Lock()
	var due []activation
	rest := o.waiting[:0]
	oldest := until
	for _, a := range o.waiting {
		if a.at < until {
			due = append(due, a)
		} else {
			rest = append(rest, a)
		}
	}
	o.waiting = rest
	o.mu.Unlock()
	for _, a := range due {
		r := recalled{Summary: recall.Summary{At: a.at, Since: max(o.began, a.at-o.last), Complete: o.began != 0 && o.began <= a.at-o.last}}
		for _, b := range o.batches {
			for i := range b.Len() {
				if t := o.timeOf(b, i); a.at-o.last <= t && t <= a.at {
					r.rows = append(r.rows, string(o.row(nil, b, b.Row(i))))
				}
			}
		}
		o.publish(a.n, r)
	}
	// An activation that is still to come is not much older than the watermark.
	oldest -= o.last + int64(keptLonger)
	for len(o.batches) > 0 && o.timeOf(o.batches[0], o.batches[0].Len()-1) < oldest {
		o.batches[0].Release()
		o.batches = o.batches[1:]
	}
}

// keptLonger is how long samples are kept beyond LAST, since activations arrive late.
const keptLonger = time.Second

func (o *kept) finish() {
	o.serve(operators.EndOfTime)
	for _, b := range o.batches {
		b.Release()
	}
	o.batches = nil
}

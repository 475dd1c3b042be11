package trigger

import (
	"context"
	"sync"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/probes/recall"
)

// recorded publishes recorded calls. The rows of a firing arrive before or after the
// activation; they belong together by the time of the tuple.
type recorded struct {
	recallOutput
	set  *recall.Set
	rows []string // of the next firing

	mu      sync.Mutex
	waiting map[int64][]int64    // activations whose rows are still to come
	ready   map[int64][]recalled // rows whose activations are still to come
}

// Push implements operators.Operator.
func (o *recorded) Push(_ context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	o.tally.Rows.Add(uint64(b.Len()))
	for i := range b.Len() {
		o.rows = append(o.rows, string(o.row(nil, b, b.Row(i))))
	}
	return operators.More, nil
}

// Signal implements operators.Operator.
func (o *recorded) Signal(_ context.Context, _ int, s operators.Signal) (operators.Status, error) {
	o.gap(s)
	if s.Kind != operators.Barrier {
		return operators.More, nil
	}
	r := recalled{o.set.Summary(s.ID), o.rows}
	o.rows = nil
	o.mu.Lock()
	defer o.mu.Unlock()
	if ns := o.waiting[r.At]; len(ns) > 0 {
		o.waiting[r.At] = ns[1:]
		if len(ns) == 1 {
			delete(o.waiting, r.At)
		}
		o.publish(ns[0], r)
	} else {
		o.ready[r.At] = append(o.ready[r.At], r)
	}
	return operators.More, nil
}

func (o *recorded) activate(a activation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if rs := o.ready[a.at]; len(rs) > 0 {
		o.ready[a.at] = rs[1:]
		if len(rs) == 1 {
			delete(o.ready, a.at)
		}
		o.publish(a.n, rs[0])
	} else {
		o.waiting[a.at] = append(o.waiting[a.at], a.n)
	}
}

func (o *recorded) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for at, ns := range o.waiting {
		for _, n := range ns {
			o.publish(n, recalled{Summary: recall.Summary{At: at, Reason: "lost"}})
		}
	}
	for _, rs := range o.ready { // the tuple was lost
		for _, r := range rs {
			o.publish(0, r)
		}
	}
}

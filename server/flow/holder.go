package flow

import (
	"math"
	"sync"

	"endoscope/operators/batch"
	"endoscope/probes"
	"endoscope/probes/gate"
)

// Holder holds the rows of a sampler until it is known whether the join above
// needs them (plan.Holding). A row is needed if it is at most `before` older
// than a row of the opener, or arrives while the gate is open. The opener's
// watermark tells which rows will never be needed.
//
// Its output is a superset of the needed rows, in order. Its watermark does not
// pass the rows that it holds. It holds at most `most` batches: if the runner
// does not report arrivals, since its client reads nothing, they are passed on
// to the queue, which is bounded and counts what it drops. The source calls
// Push from its own goroutine; the query's runner calls Arrived and Passed.
type Holder struct {
	probes.Sink
	gate   *gate.Gate
	before int64 // ns
	time   int   // index of the time column
	most   int   // batches held

	mu   sync.Mutex
	held []heldRows // in order of arrival
	mark int64      // the source's watermark
	sent int64      // the watermark passed on
}

type heldRows struct {
	b              *batch.Batch
	oldest, latest int64
}

func NewHolder(sink probes.Sink, g *gate.Gate, before int64, time, most int) *Holder {
	return &Holder{Sink: sink, gate: g, before: before, time: time, most: most, mark: math.MinInt64, sent: math.MinInt64}
}

// Push implements probes.Sink.
func (h *Holder) Push(b *batch.Batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := heldRows{b: b, oldest: math.MaxInt64, latest: math.MinInt64}
	for i := range b.Len() {
		t := b.Cols[h.time].Int[b.Row(i)]
		r.oldest, r.latest = min(r.oldest, t), max(r.latest, t)
	}
	h.held = append(h.held, r)
	if h.gate.Admits(r.oldest) || len(h.held) > h.most {
		h.emit()
	}
}

// Watermark implements probes.Sink. While rows are held, the watermark is
// passed on only after them.
func (h *Holder) Watermark(t int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mark = t
	if len(h.held) == 0 {
		h.sendWatermark()
	}
}

// End implements probes.Sink. It passes on all held rows, since the opener may
// still have rows that need them.
func (h *Holder) End(err error) {
	h.Release()
	h.Sink.End(err)
}

// Arrived reports a row of the opener. Rows up to `within` after it are needed,
// too.
func (h *Holder) Arrived(at, within int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gate.Open(at-h.before, at+within)
	h.emit()
}

// Passed reports that the opener has no more rows before t.
func (h *Holder) Passed(t int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for n < len(h.held) && h.held[n].latest < t && t-h.held[n].latest > h.before {
		h.held[n].b.Release()
		n++
	}
	h.drop(n)
	h.sendWatermark()
}

// Release passes on all held rows.
func (h *Holder) Release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.emit()
}

func (h *Holder) emit() {
	for _, r := range h.held {
		h.Sink.Push(r.b)
	}
	h.drop(len(h.held))
	h.sendWatermark()
}

// drop removes the first n batches.
func (h *Holder) drop(n int) {
	left := copy(h.held, h.held[n:])
	clear(h.held[left:])
	h.held = h.held[:left]
}

func (h *Holder) sendWatermark() {
	t := h.mark
	if len(h.held) > 0 {
		t = min(t, h.held[0].oldest)
	}
	if t > h.sent {
		h.sent = t
		h.Sink.Watermark(t)
	}
}

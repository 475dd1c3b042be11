package uprobe

import (
	"errors"
	"math"
	"sync"

	"endoscope/operators/batch"
	"endoscope/probes"
	"endoscope/probes/clock"
)

// merge combines the streams of several sources, which are added and removed while it
// runs. Its watermark is the minimum of theirs. Its methods, and those of the parts'
// sinks, are safe for concurrent use.
type merge struct {
	sink     probes.Sink
	lateness int64 // delay of the watermark behind the clock where there is no part

	mu    sync.Mutex // held while the sink is called
	parts map[*mergePart]bool
	first *mergePart // the part that counts the children of the target's processes
	mark  int64
	err   error // of the first part that failed
	ended bool
}

// mergePart is the sink of one source.
type mergePart struct {
	*merge
	mark int64
}

func newMerge(sink probes.Sink, lateness int64) *merge {
	return &merge{sink: sink, lateness: lateness, parts: map[*mergePart]bool{}, mark: math.MinInt64}
}

// add returns a sink for another source. Its rows come after the current watermark.
func (m *merge) add() *mergePart {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &mergePart{m, m.mark}
	m.parts[p] = true
	if m.first == nil {
		m.first = p
	}
	return p
}

// idle advances the watermark while there is no part.
func (m *merge) idle() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.parts) == 0 {
		m.advance(clock.Now() - m.lateness)
	}
}

// advance sends the watermark if it has increased. The caller holds m.mu.
func (m *merge) advance(t int64) {
	for p := range m.parts {
		t = min(t, p.mark)
	}
	if t > m.mark && !m.ended {
		m.mark = t
		m.sink.Watermark(t)
	}
}

func (m *merge) lost(cause string, n uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ended {
		m.sink.Lost(cause, n)
	}
}

func (m *merge) count(cause string, n uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ended {
		m.sink.Count(cause, n)
	}
}

// end ends the stream with err, or with the error of a part. All parts have ended.
func (m *merge) end(err error) {
	m.mu.Lock()
	m.ended = true
	err = errors.Join(err, m.err)
	m.mu.Unlock()
	m.sink.End(err) // the receiver may call us
}

// Push implements probes.Sink.
func (p *mergePart) Push(b *batch.Batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sink.Push(b)
}

// Recalled implements probes.RecallSink.
func (p *mergePart) Recalled(number uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s, ok := p.sink.(probes.RecallSink); ok {
		s.Recalled(number)
	}
}

// Partial implements probes.Sink.
func (p *mergePart) Partial(b *batch.Batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sink.Partial(b)
}

// Watermark implements probes.Sink.
func (p *mergePart) Watermark(t int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mark = t
	p.advance(t)
}

// Lost implements probes.Sink.
func (p *mergePart) Lost(cause string, n uint64) { p.lost(cause, n) }

// Count implements probes.Sink.
func (p *mergePart) Count(cause string, n uint64) {
	if cause != probes.Unobserved || p == p.first {
		p.count(cause, n)
	}
}

// End implements probes.Sink. The other parts continue.
func (p *mergePart) End(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.parts, p)
	if p.err == nil {
		p.err = err
	}
}

var _ probes.Sink = (*mergePart)(nil)

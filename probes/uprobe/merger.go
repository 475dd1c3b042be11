package uprobe

import (
	"errors"
	"math"
	"sync"

	"endoscope/operators/batch"
	"endoscope/probes"
	"endoscope/probes/clock"
)

// merge makes one stream of those of several sources, which come and go: its
// watermark is the lowest of theirs. Its methods, and those of the parts' sinks,
// may be called from several goroutines.
type merge struct {
	sink     probes.Sink
	lateness int64 // how far the watermark stays behind the clock where there is no part

	mu    sync.Mutex // held while the sink is called
	parts map[*mergePart]bool
	mark  int64
	err   error // of the part that failed first
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

// add makes the sink of another source. What that gives comes after everything
// that was promised before the call.
func (m *merge) add() *mergePart {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &mergePart{m, m.mark}
	m.parts[p] = true
	return p
}

// idle lets time go on where no part does it.
func (m *merge) idle() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.parts) == 0 {
		m.advance(clock.Now() - m.lateness)
	}
}

// advance tells the watermark, if it is later. m.mu is held.
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

// end ends the stream, for err or what a part ended for. Parts have ended.
func (m *merge) end(err error) {
	m.mu.Lock()
	m.ended = true
	err = errors.Join(err, m.err)
	m.mu.Unlock()
	m.sink.End(err) // whose receiver may look at us
}

// Push implements probes.Sink.
func (p *mergePart) Push(b *batch.Batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sink.Push(b)
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
func (p *mergePart) Count(cause string, n uint64) { p.count(cause, n) }

// End implements probes.Sink: the others go on.
func (p *mergePart) End(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.parts, p)
	if p.err == nil {
		p.err = err
	}
}

var _ probes.Sink = (*mergePart)(nil)

package trigger

import (
	"context"
	"sync"
	"time"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/clock"
	"endoscope/probes/rows"
)

// streamRow is one row of a trigger's stream.
type streamRow struct {
	at         int64 // ns since the epoch
	activation int64
	action     string
	row        string // JSON
}

// listener receives the rows of a trigger's stream. take does not block; it is
// called by one goroutine at a time.
type listener interface {
	deliver(rows []streamRow)
	end() // no row follows
}

// Stream passes the rows of a trigger to its listeners.
type Stream struct {
	mu        sync.Mutex
	listeners map[listener]bool
	rows      uint64
	closed    bool
}

func NewStream() *Stream { return &Stream{listeners: map[listener]bool{}} }

// hasListeners reports whether there are listeners. If not, it counts n rows, which
// need not be built.
func (s *Stream) hasListeners(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.listeners) == 0 {
		s.rows += uint64(n)
	}
	return len(s.listeners) > 0
}

func (s *Stream) publish(rows ...streamRow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows += uint64(len(rows))
	for l := range s.listeners {
		l.deliver(rows)
	}
}

func (s *Stream) Count() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows
}

// listen adds l, which receives the following rows or, if the stream has ended,
// its end.
func (s *Stream) listen(l listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		l.end()
		return
	}
	s.listeners[l] = true
}

// ignore removes l, which receives nothing more.
func (s *Stream) ignore(l listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
}

func (s *Stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for l := range s.listeners {
		l.end()
	}
	clear(s.listeners)
}

// Provider serves the streams of triggers.
type Provider struct{ All *Registry }

func (p *Provider) Streams() []string { return []string{catalog.TriggerStream} }

func (p *Provider) Close() error { return nil }

func (p *Provider) Prepare(_ context.Context, spec *plan.Acquire) (probes.Source, error) {
	name := spec.Args[0].V.S
	t := p.All.Get(name)
	if t == nil {
		return nil, plan.Errorf(spec.Start, spec.Stop, "there is no trigger %s any more", name)
	}
	w, err := streamTable.Writer(spec, 0)
	if err != nil {
		return nil, err
	}
	return &source{stream: t.Stream, spec: spec, rows: w, quit: make(chan struct{})}, nil
}

// streamTable builds the rows of a trigger's stream.
var streamTable = rows.NewTableOf(catalog.Trigger, rows.Columns[streamRow]{
	"timestamp":  rows.Word(func(r *streamRow) *int64 { return &r.at }),
	"activation": rows.Word(func(r *streamRow) *int64 { return &r.activation }),
	"action":     rows.String(func(r *streamRow) string { return r.action }),
	"row":        rows.String(func(r *streamRow) string { return r.row }),
})

// source delivers the rows of a trigger's stream, from Start on.
type source struct {
	probes.Base
	stream *Stream
	spec   *plan.Acquire
	sink   probes.Sink
	quit   chan struct{} // closed to stop the watermarks
	marks  sync.WaitGroup

	mu    sync.Mutex // guards sink's calls, and rows
	rows  *rows.Writer[streamRow]
	ended bool
}

// Info implements probes.Source.
func (s *source) Info() probes.Info {
	return probes.Info{
		Sites:    []probes.Site{{Provider: catalog.TriggerStream, Function: s.spec.Args[0].V.S, Method: "activations", Kind: "stream"}},
		Residual: s.spec.Filter, Live: true,
	}
}

// markInterval is the interval of watermarks of a trigger's stream. delay is
// how far they are behind the clock, in addition to the lateness: rows of
// actions take a while to arrive.
const (
	markInterval = 100 * time.Millisecond
	markDelay    = 100 * time.Millisecond
)

func (s *source) Start(_ context.Context, sink probes.Sink, _ probes.Options) error {
	s.sink, s.rows.Push = sink, sink.Push
	s.marks.Go(func() {
		tick := time.NewTicker(markInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.mu.Lock()
				if !s.ended {
					s.sink.Watermark(clock.Now() - int64(s.spec.Settings.Lateness+markDelay))
				}
				s.mu.Unlock()
			case <-s.quit:
				return
			}
		}
	})
	s.stream.listen(s)
	return nil
}

func (s *source) deliver(rows []streamRow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	for i := range rows {
		s.rows.Add(&rows[i])
	}
	s.rows.Flush()
}

func (s *source) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.ended = true
		close(s.quit)
		if s.sink != nil {
			s.sink.End(nil)
		}
	}
}

func (s *source) Stop() error {
	s.stream.ignore(s)
	s.end()
	s.marks.Wait()
	return nil
}

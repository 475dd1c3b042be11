package standing

import (
	"context"
	"os"
	"sync"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/server/wire/bus"
)

// Provider gives the results of standing queries as streams.
type Provider struct{ Store *Store }

// Streams implements probes.Provider.
func (p *Provider) Streams() []string { return []string{catalog.StandingStream} }

// Close implements probes.Provider.
func (p *Provider) Close() error { return nil }

// Prepare implements probes.Provider. The arguments are the qualified name, and whether only
// final results are read, and only those that are stored from now on.
func (p *Provider) Prepare(_ context.Context, spec *plan.Acquire) (probes.Source, error) {
	q := p.Store.Get(spec.Args[0].V.S)
	if q == nil {
		return nil, plan.Errorf(spec.Start, spec.Stop, "there is no standing query %s any more", spec.Args[0].V.S)
	}
	s := &source{q: q, spec: spec, finals: spec.Args[1].V.I != 0, quit: make(chan struct{})}
	q.mu.Lock()
	if s.next = 1; spec.Args[2].V.I != 0 {
		s.next = q.log.end()
	}
	columns := q.Columns
	q.mu.Unlock()
	for _, f := range spec.Out.Fields {
		at := -1
		for i, c := range columns {
			if c.Name == f.Name && c.Type == f.Type {
				at = i
			}
		}
		if at < 0 {
			return nil, plan.Errorf(spec.Start, spec.Stop, "the standing query %s has no column %s any more", q.Name, f.Name)
		}
		s.pick = append(s.pick, at)
	}
	return s, nil
}

// source reads the log of a query, and waits for more. It does not drop rows for a slow
// consumer: they are stored.
type source struct {
	probes.Base
	q      *Query
	spec   *plan.Acquire
	finals bool
	pick   []int
	next   uint64 // the next record
	quit   chan struct{}
	once   sync.Once
	all    sync.WaitGroup
}

// Info implements probes.Source.
func (s *source) Info() probes.Info {
	return probes.Info{
		Sites:    []probes.Site{{Provider: catalog.StandingStream, Function: s.q.Name, Method: "log", Kind: "stream"}},
		Residual: s.spec.Filter,
	}
}

// removedCause is the cause of results that were removed before they were read.
const removedCause = "results that were removed before they were read"

// Start implements probes.Source.
func (s *source) Start(_ context.Context, sink probes.Sink, _ probes.Options) error {
	s.all.Go(func() { sink.End(s.run(sink)) })
	return nil
}

// living is the interval of watermarks while nothing is stored.
const living = time.Second

// run reads records until Stop, or until the query is dropped.
func (s *source) run(sink probes.Sink) error {
	var f *os.File
	var number uint64 // of the segment that is open
	var at int64
	var record uint64 // the number of the record at that offset
	defer func() {
		if f != nil {
			_ = f.Close()
		}
	}()
	mark := int64(0)
	tick := time.NewTicker(living)
	defer tick.Stop()
	for {
		s.q.mu.Lock()
		changed, dropped, end := s.q.changed, s.q.dropped, s.q.log.end()
		var in *segment
		for _, g := range s.q.log.segments {
			if g.number+g.count > s.next {
				c := *g
				in = &c
				break
			}
		}
		s.q.mu.Unlock()
		switch {
		case s.next >= end || in == nil:
			if dropped {
				return nil
			}
			select {
			case <-changed:
			case <-tick.C:
				if mark > 0 {
					sink.Watermark(mark)
				}
			case <-s.quit:
				return nil
			}
			continue
		case in.number > s.next:
			sink.Lost(removedCause, in.number-s.next)
			s.next = in.number
		}
		if f == nil || number != in.number {
			if f != nil {
				_ = f.Close()
			}
			var err error
			if f, err = os.Open(in.path); err != nil {
				f = nil
				if os.IsNotExist(err) { // it was removed meanwhile
					continue
				}
				return err
			}
			number, at, record = in.number, 0, in.number
		}
		r, parts, after, err := readRecord(f, at)
		if err != nil {
			return err
		}
		at, record = after, record+1
		if record <= s.next { // it was read before
			continue
		}
		s.next = record
		if !s.finals || r.Final {
			if err := s.push(sink, parts); err != nil {
				return err
			}
		}
		if r.Upto >= mark {
			mark = r.Upto + 1
			sink.Watermark(mark)
		}
		select {
		case <-s.quit:
			return nil
		default:
		}
	}
}

// push passes the rows of a record.
func (s *source) push(sink probes.Sink, parts [][]byte) error {
	for _, part := range parts {
		bs, err := bus.DecodeRows(s.q.Columns, part)
		if err != nil {
			return err
		}
		for _, b := range bs {
			cols := make([]batch.Column, len(s.pick))
			for i, at := range s.pick {
				cols[i] = b.Cols[at]
			}
			sink.Push(b.Derive(nil, cols))
			b.Release()
		}
	}
	return nil
}

// Stop implements probes.Source.
func (s *source) Stop() error {
	s.once.Do(func() { close(s.quit) })
	s.all.Wait()
	return nil
}

// Args returns the arguments of an acquisition of a standing query.
func Args(key string, finals, fresh bool) []plan.Const {
	return []plan.Const{{V: types.Str(key)}, {V: types.Bool(finals)}, {V: types.Bool(fresh)}}
}

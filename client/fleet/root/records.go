package root

import (
	"context"
	"errors"
	"log/slog"

	"endoscope/operators/batch"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// records are the results of a standing query at the bus. All reducers that may keep the
// query store them in the same order; the one that keeps it adds to them. It belongs to one
// goroutine.
type records struct {
	e       *Engine
	query   string
	results wire.StandingResults // what is stored here
	log     *slog.Logger
	last    uint64   // the sequence of the last message that was read or added
	parts   [][]byte // of a result of which more parts follow
}

// follow stores here what was added at the bus since.
func (r *records) follow(ctx context.Context) error {
	for {
		all, err := bus.Records(ctx, r.e.nc, r.query, r.last)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			last, err := bus.LastRecord(ctx, r.e.nc, r.query)
			if err != nil || last >= r.last {
				return err
			}
			r.last, r.parts = 0, nil // the bus has lost them
			if last == 0 {
				return nil
			}
		}
		for _, m := range all {
			if err := r.receive(m.Data); err != nil {
				return err
			}
			r.last = m.Sequence
		}
	}
}

// receive stores a result when all its parts were received.
func (r *records) receive(message []byte) error {
	text, _, err := r.e.trust.Open(bus.About{Kind: bus.KindRecord, Query: r.query}, message)
	if err != nil {
		r.log.Warn("a result of a standing query is refused", "query", r.query, "error", err)
		return nil
	}
	h, rows, err := bus.DecodeRecord(text)
	if err != nil {
		return err
	}
	if h.Part == 0 {
		r.parts = nil // who has stored those before has not completed them
	}
	if h.Part != len(r.parts) {
		return nil
	}
	if r.parts = append(r.parts, rows); len(r.parts) < h.Parts {
		return nil
	}
	out := wire.StandingRecord{Number: h.Number, Window: h.Window, Parts: r.parts}
	r.parts = nil
	if next := r.results.Next(); h.Number > next {
		r.log.Warn("results of a standing query are missing here", "query", r.query, "results", h.Number-next)
	}
	if err := r.results.Begin(h.Columns); err != nil {
		return err
	}
	return r.results.Append(out)
}

// add adds a result, at the bus first: what is there counts. It waits for a bus that is
// away. ErrMoved: another reducer has added one.
func (r *records) add(ctx context.Context, w wire.StandingWindow, cols []wire.Column, rows []*batch.Batch) error {
	out := wire.StandingRecord{Number: r.results.Next(), Window: w, Parts: [][]byte{nil}}
	if len(rows) > 0 {
		var err error
		if out.Parts, err = bus.EncodeRows(cols, nil, rows); err != nil {
			return err
		}
	}
	for i, part := range out.Parts {
		m, err := bus.EncodeRecord(&bus.Record{Number: out.Number, Window: w, Columns: cols, Part: i, Parts: len(out.Parts)}, part)
		if err == nil {
			m, err = r.e.trust.Seal(bus.About{Kind: bus.KindRecord, Query: r.query}, m)
		}
		if err != nil {
			return err
		}
		for {
			at, err := bus.AddRecord(ctx, r.e.nc, r.query, m, r.last)
			if err == nil {
				r.last = at
				break
			}
			if errors.Is(err, bus.ErrMoved) || !pause(ctx, againAfter) {
				return err
			}
		}
	}
	return r.results.Append(out)
}

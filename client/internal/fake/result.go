package fake

import (
	"context"
	"io"
	"sync"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// result is a wire.Result produced by a goroutine.
type result struct {
	session *session
	cols    []wire.Column
	text    string // message

	ctx     context.Context
	abandon context.CancelFunc
	events  chan wire.Event
	stopped chan struct{}
	stop    sync.Once
	let     sync.Once // releases the engine

	err     error // of the script, once events is closed
	summary wire.Summary
}

func (s *session) start(ctx context.Context, cols []wire.Column, play func(*result) error) *result {
	r := &result{session: s, cols: cols, events: make(chan wire.Event), stopped: make(chan struct{})}
	r.ctx, r.abandon = context.WithCancel(ctx)
	s.engine.attached.Add(1)
	go func() {
		r.err = play(r)
		r.summary.Elapsed = 1230 * time.Millisecond
		close(r.events)
	}()
	return r
}

func (s *session) message(text string) *result {
	r := s.start(context.Background(), nil, func(*result) error { return nil })
	r.text = text
	return r
}

func (r *result) Columns() []wire.Column { return r.cols }
func (r *result) Message() string        { return r.text }
func (*result) Info() wire.Info          { return wire.Info{} }
func (r *result) Summary() wire.Summary  { return r.summary }
func (r *result) Stop()                  { r.stop.Do(func() { close(r.stopped) }) }

func (r *result) release() { r.let.Do(func() { r.session.engine.attached.Add(-1) }) }

func (r *result) Next(ctx context.Context) (wire.Event, error) {
	select {
	case ev, ok := <-r.events:
		if ok {
			return ev, nil
		}
		if r.err != nil {
			return wire.Event{}, r.err
		}
		r.release()
		return wire.Event{}, io.EOF
	case <-ctx.Done():
		return wire.Event{}, ctx.Err()
	}
}

func (r *result) Close() error {
	r.abandon()
	for range r.events {
	}
	r.release()
	return nil
}

// send delivers an event to the client; it fails when the result is closed.
func (r *result) send(ev wire.Event) error {
	select {
	case r.events <- ev:
		return nil
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

// rows delivers rows in one batch.
func (r *result) rows(rows ...[]types.Value) error {
	r.summary.Rows += uint64(len(rows))
	return r.send(wire.Event{Kind: wire.Rows, Batch: r.batch(rows)})
}

func (r *result) batch(rows [][]types.Value) *batch.Batch {
	schema := make([]types.Type, len(r.cols))
	for i, c := range r.cols {
		schema[i] = c.Type
	}
	b := batch.New(schema)
	for _, row := range rows {
		b.AppendRow(row...)
	}
	return b
}

// preview delivers rows as a preview of a running total.
func (r *result) preview(rows ...[]types.Value) error {
	if err := r.send(wire.Event{Kind: wire.Rows, Batch: r.batch(rows), Preview: true}); err != nil {
		return err
	}
	return r.send(wire.Event{Kind: wire.Preview})
}

// wait waits until the result is stopped.
func (r *result) wait() error {
	select {
	case <-r.stopped:
		return nil
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

// columns returns columns of alternating names and types.
func columns(namesAndTypes ...any) (cols []wire.Column) {
	for i := 0; i < len(namesAndTypes); i += 2 {
		cols = append(cols, wire.Column{Name: namesAndTypes[i].(string), Type: namesAndTypes[i+1].(types.Type)})
	}
	return cols
}

// row returns values of strings, ints (BIGINT), durations and batch.Values.
func row(cells ...any) (vs []types.Value) {
	for _, c := range cells {
		switch c := c.(type) {
		case string:
			vs = append(vs, types.Str(c))
		case int:
			vs = append(vs, types.Int(int64(c)))
		case time.Duration:
			vs = append(vs, types.Dur(c.Nanoseconds()))
		case types.Value:
			vs = append(vs, c)
		}
	}
	return vs
}

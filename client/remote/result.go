package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"

	"endoscope/server/wire"
	"endoscope/server/wire/columnar"
)

// GapCause is the cause of losses that the server counts and the client sees as
// gaps between the numbers of rows.
const GapCause = "not read in time"

// result is a wire.Result at the server.
type result struct {
	s         *session
	statement wire.Statement
	ctx       context.Context // of the call
	cancel    context.CancelFunc
	reader    *flight.Reader
	dec       *columnar.Decoder
	cols      []wire.Column
	events    chan wire.Event
	done      chan struct{} // closed when reader is read no more

	mu      sync.Mutex
	message string
	again   bool  // wire.Frame.StartsOver
	err     error // how it ended, once events is closed
	summary wire.Summary
	gaps    uint64 // rows whose numbers were left out
	given   uint64 // rows in all, those left out included, once events is closed
	began   time.Time
}

// begin has a statement executed and returns when it was accepted.
func (s *session) begin(ctx context.Context, st wire.Statement) (*result, error) {
	st.Result = s.newName()
	handle, err := json.Marshal(st)
	if err != nil {
		return nil, err
	}
	ticket, err := flightsql.CreateStatementQueryTicket(handle)
	if err != nil {
		return nil, err
	}
	r := &result{s: s, statement: st, events: make(chan wire.Event, 4), done: make(chan struct{}), began: time.Now()}
	r.ctx, r.cancel = context.WithCancel(s.ctx)
	abandoned := context.AfterFunc(ctx, r.cancel)
	err = r.open(ticket)
	if err == nil && !abandoned() {
		err = ctx.Err()
	}
	if err != nil {
		r.cancel()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, s.errorOf(err, st.Text)
	}
	go r.read()
	return r, nil
}

// open asks for the result and reads up to its first frame.
func (r *result) open(ticket []byte) error {
	stream, err := r.s.client.DoGet(r.ctx, &flight.Ticket{Ticket: ticket})
	if err != nil {
		return err
	}
	messages := &messages{stream: stream}
	if r.reader, err = flight.NewRecordReader(messages); err != nil {
		return messages.cause(err)
	}
	cols, err := columnar.Columns(r.reader.Schema())
	if err != nil {
		return err
	}
	r.dec = columnar.NewDecoder(cols)
	if len(cols) > 0 {
		r.cols = cols
	}
	if !r.reader.Next() {
		return messages.cause(r.readerErr())
	}
	f, err := wire.DecodeFrame(r.reader.LatestAppMetadata())
	if err != nil || f.Kind != wire.FrameBegin {
		return fmt.Errorf("the server does not say that it begins")
	}
	r.message, r.again = f.Text, f.StartsOver
	return nil
}

// messages keeps the error with which a stream ended, which the reader wraps.
type messages struct {
	stream flight.FlightService_DoGetClient
	err    error
}

func (m *messages) Recv() (*flight.FlightData, error) {
	d, err := m.stream.Recv()
	if err != nil && !errors.Is(err, io.EOF) {
		m.err = err
	}
	return d, err
}

func (m *messages) cause(err error) error {
	if m.err != nil {
		return m.err
	}
	return err
}

func (r *result) readerErr() error {
	if err := r.reader.Err(); err != nil {
		return err
	}
	return errors.New("the server ended the result before its end")
}

// read makes events of the records that come, until the last.
func (r *result) read() {
	defer close(r.done)
	defer close(r.events)
	defer r.reader.Release()
	defer r.cancel()
	next := uint64(0)
	for r.reader.Next() {
		f, err := wire.DecodeFrame(r.reader.LatestAppMetadata())
		if err != nil {
			r.fail(errors.New("a frame cannot be read"))
			return
		}
		if f.Summary != nil {
			r.mu.Lock()
			r.summary = *f.Summary
			r.mu.Unlock()
		}
		if f.Row > next && !f.Preview {
			r.mu.Lock()
			r.gaps += f.Row - next
			r.mu.Unlock()
			next = f.Row
		}
		ev := wire.Event{Text: f.Text, Mark: f.Watermark}
		switch f.Kind {
		case wire.FrameRows:
			n, ok := r.rows(r.reader.RecordBatch(), &f, next)
			if !ok {
				return
			}
			if !f.Preview {
				next += n
			}
			continue
		case wire.FrameEnd:
			r.mu.Lock()
			r.message, r.given = f.Text, next
			r.mu.Unlock()
			r.fail(io.EOF)
			return
		case wire.FrameFlush:
			ev.Kind = wire.Flush
		case wire.FramePreview:
			ev.Kind = wire.Preview
		case wire.FrameNotice:
			ev.Kind = wire.Notice
		default: // a beat
			if !r.s.marks {
				continue
			}
			ev = wire.Event{Kind: wire.Mark, Mark: f.Watermark}
		}
		if !r.give(ev) {
			return
		}
	}
	r.fail(r.s.errorOf(r.readerErr(), r.statement.Text))
}

// rows gives the rows of a record.
func (r *result) rows(rec arrow.RecordBatch, f *wire.Frame, next uint64) (n uint64, ok bool) {
	bs, err := r.dec.Decode(rec)
	if err != nil {
		r.fail(err)
		return 0, false
	}
	for i, b := range bs {
		ev := wire.Event{Kind: wire.Rows, Batch: b, Preview: f.Preview}
		if !f.Preview {
			ev.Row = next + n
		}
		if i == len(bs)-1 {
			ev.Mark = f.Watermark
		}
		if !r.give(ev) {
			for _, b := range bs[i:] {
				b.Release()
			}
			return n, false
		}
		n += uint64(b.Len())
	}
	return n, true
}

// give waits for the reader of events; it fails when nobody is there any more.
func (r *result) give(ev wire.Event) bool {
	select {
	case r.events <- ev:
		return true
	case <-r.ctx.Done():
		r.fail(r.ended())
		return false
	}
}

// ended is why the call was given up.
func (r *result) ended() error {
	select {
	case <-r.s.ended:
		if r.s.lost != nil {
			return r.s.lost
		}
	default:
	}
	return context.Canceled
}

func (r *result) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
}

func (r *result) Columns() []wire.Column { return r.cols }

func (r *result) Message() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.message
}

func (r *result) Next(ctx context.Context) (wire.Event, error) {
	select {
	case ev, ok := <-r.events:
		if ok {
			return ev, nil
		}
	case <-ctx.Done():
		return wire.Event{}, ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return wire.Event{Row: r.given}, r.err
}

// Stop implements wire.Result. It does not wait for the server.
func (r *result) Stop() {
	go func() { _ = r.s.act(r.ctx, wire.ActionStop, wire.Statement{Result: r.statement.Result}, nil) }()
}

// Close implements wire.Result: the server says when nothing is attached.
func (r *result) Close() error {
	var err error
	select {
	case <-r.done: // it has ended, and is closed there
	default:
		go func() { // the server may wait for a reader
			for ev := range r.events {
				if ev.Batch != nil {
					ev.Batch.Release()
				}
			}
		}()
		err = r.s.act(context.Background(), wire.ActionClose, wire.Statement{Result: r.statement.Result}, nil)
	}
	r.cancel()
	<-r.done
	for ev := range r.events {
		if ev.Batch != nil {
			ev.Batch.Release()
		}
	}
	var lost *LostError
	if errors.As(err, &lost) || errors.Is(err, context.Canceled) {
		return nil // then the server has ended the session itself, or soon does
	}
	return err
}

// Summary implements wire.Result.
func (r *result) Summary() wire.Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.summary
}

// StartsOver reports whether the statement, executed again, would give its first
// rows again, as the server says.
func (r *result) StartsOver() bool { return r.again }

// Gaps is how many rows the server dropped because they were not read in time, as
// seen from here.
func (r *result) Gaps() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gaps
}

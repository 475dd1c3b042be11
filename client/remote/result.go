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

	"endoscope/planner"
	"endoscope/server/wire"
	"endoscope/server/wire/columnar"
)

// GapCause is the cause of losses counted by the server that the client sees as gaps
// in row numbers.
const GapCause = "not read in time"

// result is a wire.Result of the server.
type result struct {
	s         *session
	statement wire.Statement
	ctx       context.Context // of the call
	cancel    context.CancelFunc
	messages  *messages
	reader    *flight.Reader
	dec       *columnar.Decoder
	cols      []wire.Column
	fragment  *fragment   // the fragment executed here; nil if none
	share     *wire.Share // what the root of several hosts executes over the rows; nil: there is one host
	port      wire.Port   // of the records that arrive now
	events    chan wire.Event
	done      chan struct{} // closed when reader is no longer used

	mu      sync.Mutex
	message string
	again   bool  // wire.Frame.StartsOver
	err     error // the final error, once events is closed
	summary wire.Summary
	full    bool   // the fragment needs no more rows; used by the reader only
	gaps    uint64 // rows whose numbers were skipped
	given   uint64 // total rows including skipped ones, once events is closed
	began   time.Time
}

// begin sends a statement and returns when it was accepted.
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
		if r.reader != nil {
			r.reader.Release()
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, s.errorOf(err, st.Text)
	}
	go r.read()
	return r, nil
}

// open requests the result and reads up to its first frame.
func (r *result) open(ticket []byte) (err error) {
	defer recoverError(&err)
	stream, err := r.s.client.DoGet(r.ctx, &flight.Ticket{Ticket: ticket})
	if err != nil {
		return err
	}
	r.messages = &messages{stream: stream}
	cols, err := r.section()
	if err != nil {
		return err
	}
	if len(cols) > 0 {
		r.cols = cols
	}
	if !r.reader.Next() {
		return r.messages.cause(r.readerErr())
	}
	f, err := wire.DecodeFrame(r.reader.LatestAppMetadata())
	if err != nil || f.Kind != wire.FrameBegin {
		return fmt.Errorf("the server did not send a begin frame")
	}
	r.message, r.again, r.port, r.share = f.Text, f.StartsOver, f.Port, f.Share
	if f.Fragment != nil {
		if r.fragment, err = newFragment(f.Fragment, r.fragmentEvent); err != nil {
			return err
		}
		if !r.fragment.accepts(r.port, cols) {
			return errMisfit
		}
		r.cols = r.fragment.columns
	}
	return nil
}

// Info implements wire.Result. The result's fragment is executed by the result itself.
func (r *result) Info() wire.Info { return wire.Info{Share: r.share, StartsOver: r.again} }

// section begins to read records with a schema of their own.
func (r *result) section() ([]wire.Column, error) {
	reader, err := flight.NewRecordReader(r.messages)
	if err != nil {
		return nil, r.messages.cause(err)
	}
	cols, err := columnar.Columns(reader.Schema())
	if err != nil {
		reader.Release()
		return nil, err
	}
	if r.reader != nil {
		r.reader.Release()
	}
	r.reader, r.dec = reader, columnar.NewDecoder(cols)
	return cols, nil
}

// messages keeps the error that ended a stream, which the reader wraps.
type messages struct {
	stream flight.FlightService_DoGetClient
	err    error
}

func (m *messages) Recv() (*flight.FlightData, error) {
	d, err := m.stream.Recv()
	if err == nil {
		if bad := columnar.CheckHeader(d.GetDataHeader()); bad != nil {
			err = fmt.Errorf("the server's answer cannot be read: %w", bad)
		}
	}
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
	return errors.New("the server ended the result without an end frame")
}

// read converts records to events up to the last one.
func (r *result) read() {
	defer close(r.done)
	defer close(r.events)
	defer func() { r.reader.Release() }()
	defer r.cancel()
	defer r.fragment.abandon()
	var fault error
	defer func() {
		if fault != nil {
			r.fail(fault)
		}
	}()
	defer recoverError(&fault)
	next := uint64(0)
	for r.reader.Next() {
		f, err := wire.DecodeFrame(r.reader.LatestAppMetadata())
		if err != nil {
			r.fail(errors.New("invalid frame"))
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
			if !f.Preview && r.port != wire.PortStates {
				next += n
			}
			continue
		case wire.FrameSection:
			if r.port = f.Port; r.fragment == nil || r.port >= wire.Ports {
				r.fail(errors.New("the server sent rows for an unknown port"))
				return
			}
			cols, err := r.section()
			if err != nil {
				r.fail(r.s.errorOf(err, r.statement.Text))
				return
			}
			if !r.fragment.accepts(r.port, cols) {
				r.fail(errMisfit)
				return
			}
			continue
		case wire.FrameCue:
			if r.fragment != nil && f.Cue != nil && !r.checkFragment(r.fragment.cue(r.ctx, *f.Cue)) {
				return
			}
			continue
		case wire.FrameEnd:
			if r.fragment != nil && !r.checkFragment(r.fragment.close(r.ctx)) {
				return
			}
			r.mu.Lock()
			r.message, r.given = f.Text, next
			if r.fragment != nil {
				r.given = r.fragment.given() + r.gaps
			}
			r.mu.Unlock()
			r.end(io.EOF)
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
		if !r.send(ev) {
			return
		}
	}
	r.fail(r.s.errorOf(r.readerErr(), r.statement.Text))
}

// rows delivers the rows of a record.
func (r *result) rows(rec arrow.RecordBatch, f *wire.Frame, next uint64) (n uint64, ok bool) {
	bs, err := r.dec.Decode(rec)
	if err != nil {
		r.fail(err)
		return 0, false
	}
	for i, b := range bs {
		if r.fragment != nil && r.port != wire.PortResult {
			size := uint64(b.Len()) // a pushed batch belongs to the fragment
			err := r.fragment.push(r.ctx, r.port, b)
			b.Release()
			if !r.checkFragment(err) {
				for _, b := range bs[i+1:] {
					b.Release()
				}
				return n, false
			}
			if r.fragment.full && !r.full {
				r.full = true
				r.Stop() // it needs no more rows
			}
			n += size
			continue
		}
		ev := wire.Event{Kind: wire.Rows, Batch: b, Preview: f.Preview}
		if !f.Preview {
			ev.Row = next + n
		}
		if i == len(bs)-1 {
			ev.Mark = f.Watermark
		}
		if !r.send(ev) {
			for _, b := range bs[i:] {
				b.Release()
			}
			return n, false
		}
		n += uint64(b.Len())
	}
	return n, true
}

// checkFragment records the error of the fragment, and reports whether there is none.
func (r *result) checkFragment(err error) bool {
	if err == nil {
		return true
	}
	if errors.Is(err, errAbandoned) {
		return false // send has recorded the reason
	}
	r.fail(planner.Placed(err, r.statement.Text))
	r.Stop()
	return false
}

// errAbandoned ends a fragment whose result has no reader.
var errAbandoned = errors.New("the result has no reader")

// fragmentEvent delivers an event of the fragment.
func (r *result) fragmentEvent(ev wire.Event) error {
	if ev.Kind == wire.Rows && !ev.Preview {
		ev.Row += r.Gaps()
	}
	if !r.send(ev) {
		if ev.Batch != nil {
			ev.Batch.Release()
		}
		return errAbandoned
	}
	return nil
}

// send blocks until the reader receives ev; it returns false if there is no reader
// any more.
func (r *result) send(ev wire.Event) bool {
	select {
	case r.events <- ev:
		return true
	case <-r.ctx.Done():
		r.fail(r.ended())
		return false
	}
}

// ended returns the reason why the call was abandoned.
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

// fail records the error of the result. Only the server's last frame ends it normally.
func (r *result) fail(err error) { r.end(wire.Broken(err)) }

func (r *result) end(err error) {
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

// releasing is how long Close of a result waits for the server, which may have many
// probes to detach.
const releasing = 10 * time.Second

// Close implements wire.Result: the server confirms when nothing is attached. It
// fails if there is no confirmation in time.
func (r *result) Close() error {
	var err error
	select {
	case <-r.done: // it has ended, and the server has closed it
	default:
		go func() { // the server may wait for a reader
			for ev := range r.events {
				if ev.Batch != nil {
					ev.Batch.Release()
				}
			}
		}()
		ctx, cancel := context.WithTimeout(context.Background(), r.s.releasing)
		err = r.s.act(ctx, wire.ActionClose, wire.Statement{Result: r.statement.Result}, nil)
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("the engine at %s did not confirm that the query has ended: its probes may still be attached", r.s.addr)
		}
		cancel()
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
		return nil // the server has ended the session itself, or soon will
	}
	return err
}

// Summary implements wire.Result.
func (r *result) Summary() wire.Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fragment == nil {
		return r.summary
	}
	return r.fragment.summary(r.summary)
}

// Gaps returns the number of rows that the server dropped because they were not read
// in time, as seen by the client.
func (r *result) Gaps() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gaps
}

package flight

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"endoscope/operators/batch"
	"endoscope/server/wire"
	"endoscope/server/wire/columnar"
)

// result is a statement's result that its client may request, once.
type result struct {
	wire.Result
	statement string // the executed statement

	once    sync.Once
	unasked *time.Timer // closes a result that is not requested
	taken   bool        // guarded by session.mu
}

// close abandons the result. When it returns, nothing of the result is
// attached.
func (r *result) close() {
	r.once.Do(func() {
		if r.unasked != nil {
			r.unasked.Stop()
		}
		_ = r.Close()
	})
}

// offer stores a result until the client requests it, or ClientTimeout has
// passed.
func (x *session) offer(res wire.Result, statement string) (name string, err error) {
	r := &result{Result: res, statement: statement}
	name = newName()
	r.unasked = time.AfterFunc(x.s.o.ClientTimeout, func() {
		x.mu.Lock()
		taken := r.taken
		x.mu.Unlock()
		if !taken {
			x.remove(name)
			r.close()
		}
	})
	if err := x.add(name, r); err != nil {
		r.close()
		return "", err
	}
	return name, nil
}

// claim returns a stored result to the call that requests it.
func (x *session) claim(name string) (*result, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	r := x.results[name]
	if r == nil || r.taken {
		return nil, status.Error(codes.NotFound, "there is no such result: it was read, or not asked for in time")
	}
	r.taken = true
	return r, nil
}

// Rows of several batches are combined into one record up to these limits.
const (
	recordRows  = 1 << 14
	recordBytes = 1 << 20
)

// sender sends one result.
type sender struct {
	res      *result
	form     columnar.Form
	enc      *columnar.Encoder
	to       flight.DataStreamWriter
	out      *flight.Writer
	next     uint64 // number of the next row
	mark     int64  // watermark of the events taken
	sentMark int64  // watermark sent last

	fragment *wire.Fragment // that the client executes; nil: none
	port     wire.Port      // of the rows being sent
	meter    *path          // measures the sending; nil: nothing does

	stopped bool // the service is stopping

	batches []*batch.Batch // batches of the next record
	rows    int
	bytes   int
}

// send sends a result until its end, and closes it.
func (s *Service) send(ctx context.Context, res *result, form columnar.Form, marks bool, out flight.FlightService_DoGetServer) error {
	defer res.close()
	sd := &sender{res: res, form: form, to: out}
	info := res.Info()
	if sd.fragment = info.Fragment; sd.fragment != nil {
		sd.port, sd.meter = sd.fragment.Port, pathOf(ctx)
		sd.to = metered{out, sd.meter}
	}
	sd.open()
	defer func() { sd.out.Close() }()
	err := sd.frame(&wire.Frame{Kind: wire.FrameBegin, Text: res.Message(), StartsOver: info.StartsOver, Fragment: sd.fragment, Share: info.Share, Port: sd.port})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	events := make(chan wire.Step, 64)
	go wire.Pump(ctx, res, events)
	err = sd.loop(ctx, events, s.stop, marks)
	cancel()
	for st := range events { // until the pump has ended
		st.Drop()
	}
	sd.drop()
	return err
}

// open starts the records of a port's rows.
func (sd *sender) open() {
	cols := sd.res.Columns()
	if sd.fragment != nil && sd.port != wire.PortResult {
		cols = sd.fragment.Sections[sd.port]
	}
	sd.enc = columnar.NewEncoder(cols, sd.form)
	sd.out = flight.NewRecordWriter(sd.to, ipc.WithSchema(sd.enc.Schema()))
}

// switchPort switches the following records to another port.
func (sd *sender) switchPort(port wire.Port) error {
	if err := sd.flush(); err != nil {
		return err
	}
	if err := sd.frame(&wire.Frame{Kind: wire.FrameSection, Row: sd.next, Port: port}); err != nil {
		return err
	}
	sd.out.Close() // sends nothing
	sd.port = port
	sd.open()
	return nil
}

func (sd *sender) loop(ctx context.Context, events <-chan wire.Step, stop <-chan struct{}, marks bool) error {
	beats := time.NewTicker(beat)
	defer beats.Stop()
	var passing <-chan time.Time // fires if the client wants to know how time passes
	if marks {
		t := time.NewTicker(markEvery)
		defer t.Stop()
		passing = t.C
	}
	quiet := true // nothing was sent since the last beat
	for {
		select {
		case st, ok := <-events:
			if !ok {
				return ctx.Err()
			}
			quiet = quiet && st.Err == nil && st.Event.Kind == wire.Mark
			if end, err := sd.step(st); end || err != nil {
				return err
			}
			if len(events) == 0 {
				if err := sd.flush(); err != nil {
					return err
				}
			}
		case now := <-beats.C:
			if quiet {
				sum := sd.res.Summary()
				if err := sd.frame(&wire.Frame{Kind: wire.FrameBeat, Row: sd.next, Time: now.UnixNano(), Summary: &sum}); err != nil {
					return err
				}
			}
			quiet = true
		case <-passing:
			if sd.mark > sd.sentMark && len(sd.batches) == 0 {
				if err := sd.frame(&wire.Frame{Kind: wire.FrameBeat, Row: sd.next}); err != nil {
					return err
				}
			}
		case <-stop:
			stop, sd.stopped = nil, true
			sd.res.Stop()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// step sends an event, or stores its rows until there are enough for a record.
func (sd *sender) step(st wire.Step) (end bool, err error) {
	switch {
	case st.Err == io.EOF:
		if err := sd.flush(); err != nil {
			return true, err
		}
		sd.next = max(sd.next, st.Event.Row) // the last rows may have been dropped
		sum := sd.res.Summary()
		if sd.stopped {
			sum.Notes = append(sum.Notes, "ended because the server is shutting down")
		}
		sd.res.close() // a client that has read the end may start as many results again as it is permitted
		return true, sd.frame(&wire.Frame{Kind: wire.FrameEnd, Row: sd.next, Text: sd.res.Message(), Summary: &sum})
	case st.Err != nil:
		if err := sd.flush(); err != nil {
			return true, err
		}
		return true, statusOf(st.Err, sd.res.statement)
	case st.Event.Kind == wire.Mark:
		sd.mark = st.Event.Mark
		return false, nil
	case st.Event.Kind == wire.Rows:
		if st.Event.Port != sd.port {
			if err := sd.switchPort(st.Event.Port); err != nil {
				st.Drop()
				return false, err
			}
		}
		err := sd.add(st.Event)
		sd.mark = max(sd.mark, st.Event.Mark)
		return false, err
	}
	sd.mark = max(sd.mark, st.Event.Mark)
	if err := sd.flush(); err != nil {
		return false, err
	}
	if st.Event.Kind == wire.Cued {
		return false, sd.frame(&wire.Frame{Kind: wire.FrameCue, Row: sd.next, Cue: &st.Event.Cue})
	}
	kind := map[wire.EventKind]wire.FrameKind{wire.Flush: wire.FrameFlush, wire.Preview: wire.FramePreview, wire.Notice: wire.FrameNotice}[st.Event.Kind]
	return false, sd.frame(&wire.Frame{Kind: kind, Row: sd.next, Text: st.Event.Text})
}

// frame sends a frame without rows.
func (sd *sender) frame(f *wire.Frame) error {
	return sd.record(nil, f)
}

// add adds rows to the next record. A record has only consecutive rows, all of
// a preview or none.
func (sd *sender) add(ev wire.Event) error {
	if ev.Batch == nil {
		return nil
	}
	if ev.Preview {
		defer ev.Batch.Release()
		return sd.record([]*batch.Batch{ev.Batch}, &wire.Frame{Kind: wire.FrameRows, Row: sd.next, Preview: true})
	}
	if ev.Port != wire.PortStates && ev.Row > sd.next+uint64(sd.rows) { // rows in between were dropped
		if err := sd.flush(); err != nil {
			ev.Batch.Release()
			return err
		}
		sd.next = ev.Row
	}
	return sd.keep(ev.Batch)
}

// keep adds a batch to the next record, or splits it into several if it is too
// large.
func (sd *sender) keep(b *batch.Batch) error {
	size := sd.enc.Bytes(b)
	if n := b.Len(); size > recordBytes && n > 1 {
		rows := make([]uint16, n)
		for i := range rows {
			rows[i] = uint16(b.Row(i))
		}
		first, second := b.View(rows[:n/2]), b.View(rows[n/2:])
		b.Release()
		if err := sd.keep(first); err != nil {
			second.Release()
			return err
		}
		return sd.keep(second)
	}
	if sd.bytes += size; sd.bytes > recordBytes {
		if err := sd.flush(); err != nil {
			b.Release()
			return err
		}
		sd.bytes = size
	}
	sd.batches = append(sd.batches, b)
	if sd.rows += b.Len(); sd.rows >= recordRows {
		return sd.flush()
	}
	return nil
}

// flush sends the stored rows.
func (sd *sender) flush() error {
	if len(sd.batches) == 0 {
		return nil
	}
	err := sd.record(sd.batches, &wire.Frame{Kind: wire.FrameRows, Row: sd.next})
	if sd.port != wire.PortStates { // states are not rows
		sd.next += uint64(sd.rows)
	}
	sd.drop()
	return err
}

func (sd *sender) drop() {
	for i, b := range sd.batches {
		b.Release()
		sd.batches[i] = nil
	}
	sd.batches, sd.rows, sd.bytes = sd.batches[:0], 0, 0
}

func (sd *sender) record(bs []*batch.Batch, f *wire.Frame) error {
	f.Watermark, sd.sentMark = sd.mark, sd.mark
	write := func() error {
		rec := sd.enc.Record(bs)
		defer rec.Release()
		return sd.out.WriteWithAppMetadata(rec, f.Encode())
	}
	if sd.meter == nil || len(bs) == 0 { // without rows, the cost per byte would be too high
		return write()
	}
	return sd.meter.measure(write)
}

package web

import (
	"context"
	"io"
	"reflect"
	"strconv"
	"sync"
	"time"

	"endoscope/parser"
	"endoscope/server/wire"
)

// result is a result that is sent to a page. One goroutine takes its events and queues
// them as lines; it waits while the page does not read.
type result struct {
	wire.Result
	p      *page
	number int
	enc    *encoder
	ctx    context.Context
	cancel context.CancelFunc
	once   sync.Once
	over   chan struct{}    // closed when the result is sent; nil: it was not started
	hosts  []wire.HostState // that were sent last

	mu       sync.Mutex
	points   *points
	pictures pictures
}

func newResult(p *page, number int, res wire.Result, replace bool) *result {
	epoch := p.s.now().UnixNano()
	r := &result{Result: res, p: p, number: number, enc: newEncoder(res.Columns(), epoch), points: newPoints(res.Columns(), epoch)}
	r.enc.replace = replace
	r.ctx, r.cancel = context.WithCancel(p.ctx)
	return r
}

// close abandons the result. When it returns, nothing of it is attached.
func (r *result) close() {
	r.once.Do(func() {
		r.cancel()
		if r.over != nil {
			<-r.over // no other goroutine may be waiting for an event
		}
		_ = r.Result.Close()
	})
}

// replaces reports whether each emitted result of a statement takes the place of the one
// before: totals since the start.
func replaces(statement string) bool {
	st, err := parser.Parse(statement)
	if err != nil {
		return false
	}
	q, ok := st.(*parser.Query)
	return ok && q.Emit != nil && q.Emit.Mode == "EVERY"
}

// start sends the result in a goroutine of its own. The caller holds p.mu.
func (r *result) start() {
	r.over = make(chan struct{})
	r.p.pumps.Go(func() {
		defer close(r.over)
		defer r.cancel()
		r.put(&line{Type: "begin", Planned: r.Info().Plan != nil, Columns: r.enc.columns(), Text: r.Message(), Epoch: strconv.FormatInt(r.enc.epoch, 10), Replace: r.enc.replace})
		events := make(chan wire.Step)
		go wire.Pump(r.ctx, r, events)
		r.send(events)
		for st := range events { // until the pump has ended
			st.Drop()
		}
	})
}

// send sends the events as lines, and a footer each second.
func (r *result) send(events <-chan wire.Step) {
	beats := time.NewTicker(beat)
	defer beats.Stop()
	for {
		select {
		case st, ok := <-events:
			if !ok || r.step(st) {
				return
			}
		case <-beats.C:
			r.put(&line{Type: "footer", Summary: r.footer()})
		case <-r.ctx.Done():
			return
		}
	}
}

// footer returns the summary. Hosts are sent when they have changed.
func (r *result) footer() *footer {
	s := r.Summary()
	f := footerOf(s)
	if !reflect.DeepEqual(s.Hosts, r.hosts) {
		f.Hosts, r.hosts = s.Hosts, s.Hosts
	}
	return f
}

func (r *result) put(l *line) {
	l.Query = r.number
	r.p.put(r.ctx, l)
}

// step sends an event; end: it was the last.
func (r *result) step(st wire.Step) (end bool) {
	switch {
	case st.Err == io.EOF:
		r.put(&line{Type: "end", Summary: r.footer(), Text: r.Message()})
		_ = r.Result.Close() // nothing of a result that is kept for its pictures stays attached
		return true
	case st.Err != nil:
		if r.ctx.Err() == nil {
			r.put(&line{Type: "end", Summary: r.footer(), Error: failureOf(st.Err, "", 0)})
		}
		_ = r.Result.Close()
		return true
	case st.Event.Kind == wire.Rows && st.Event.Batch != nil:
		r.rows(st.Event)
	case st.Event.Kind == wire.Flush, st.Event.Kind == wire.Preview:
		r.put(&line{Type: "flush", Preview: st.Event.Kind == wire.Preview, At: r.p.s.now().UnixNano() - r.enc.epoch})
	case st.Event.Kind == wire.Notice:
		r.put(&line{Type: "notice", Text: st.Event.Text})
	}
	return false
}

func (r *result) rows(ev wire.Event) {
	defer ev.Batch.Release()
	now := r.p.s.now().UnixNano()
	r.mu.Lock()
	r.points.add(ev.Batch, now, ev.Preview || r.enc.replace)
	words, cells := r.enc.encode(ev.Batch, &r.pictures)
	r.mu.Unlock()
	r.put(&line{Type: "rows", Rows: ev.Batch.Len(), Preview: ev.Preview, Words: words, Cells: cells})
}

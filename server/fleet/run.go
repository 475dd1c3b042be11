package fleet

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"endoscope/operators/batch"
	"endoscope/parser"
	"endoscope/planner/plan"
	"endoscope/planner/plan/planpb"
	"endoscope/planner/types"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
	"endoscope/server/wire/columnar"
)

// run is one query at this host. The fields up to dropped belong to the agent's goroutine, as
// failed does when the run has ended; all others belong to the run's.
type run struct {
	a           *Agent
	query       *query
	incarnation string // of the result, whose items are numbered
	told        chan instruction
	until       time.Time // when the lease ends
	lapsed      bool      // it has
	dropped     bool      // the query has ended for all hosts

	failed bool // it was refused, or has ended with an error

	out  *bus.Outbox
	echo *bus.Echo // of the last lease
	res  wire.Result
	cols []wire.Column
	keys []int // columns of the group key; nil: rows have none
	how  bus.Delivery
	// delimited: rows are of one result up to its Flush, and are sent together.
	delimited bool
	once      bool // there is one result, at the end

	pending []*batch.Batch
	rows    int
	bytes   int
	since   time.Time // when the first pending row arrived
	preview []*batch.Batch
	mark    int64
	over    bool // the result has no reader any more
	done    bool // ItemEnd was sent
	summed  bool // a total since the last beat has said what a beat says
	round   uint64
}

// instruction is what the agent tells a run.
type instruction struct {
	echo          *bus.Echo
	ending, over  bool
	next, missing uint64
}

// lease notes a lease; nil: the query itself.
func (r *run) lease(l *bus.Lease) {
	if l == nil {
		l = &bus.Lease{}
	}
	r.until = time.Now().Add(r.query.Lasts(l))
	r.dropped = r.dropped || l.Over
}

// tell delivers an instruction. Those of a run that does not keep up are lost, as on the
// bus; the end is repeated until it arrives.
func (r *run) tell(i instruction) {
	select {
	case r.told <- i:
	default:
	}
}

const (
	// previewEvery is the interval at which a total that is given at the end is sent.
	previewEvery = time.Second
	// unread is the size of the rows that wait for the bus, beyond which they are dropped
	// and counted.
	unread = 16 << 20
	// gathering is how long rows wait for more before they are sent.
	gathering = 50 * time.Millisecond
	// mostRows is the largest number of groups of one result.
	mostRows = 1 << 20
	// spreading is the time over which the hosts send what they all have at one time.
	spreading = 100 * time.Millisecond
	// resent limits the bytes that are sent again at a time.
	resent = 4 << 20
)

// execute executes the query. It returns when the result was acknowledged, or has no reader
// any more.
func (r *run) execute(ctx context.Context) {
	r.out = bus.NewOutbox(r.query.ID, r.a.o.Host.Name, r.incarnation)
	r.out.Restarts = r.query.Standing != nil || r.query.Reduced != nil // others may begin to receive
	defer r.drop()
	if session, err := r.begin(ctx); err != nil {
		r.add(bus.Header{Kind: bus.ItemRefused, Refusal: refusalOf(err)}, bus.InOrder, nil)
		r.done, r.failed = true, true
	} else {
		defer session.Close()
		defer r.res.Close()
	}
	events := make(chan wire.Step, 64)
	reading, stop := context.WithCancel(ctx)
	defer stop()
	if r.done {
		close(events)
	} else {
		go wire.Pump(reading, r.res, events)
		defer func() {
			stop()
			for st := range events {
				st.Drop()
			}
		}()
	}
	beat, gather := time.NewTicker(bus.LeaseEvery), time.NewTicker(gathering)
	defer beat.Stop()
	defer gather.Stop()
	for !r.over && !(r.done && r.out.Empty()) {
		from := events
		if r.done || !r.delimited && r.out.Unacknowledged() > r.query.Unacked {
			from = nil // the reader is not as fast
		}
		select {
		case st, ok := <-from:
			if ok {
				r.step(ctx, st)
			}
		case i := <-r.told:
			r.follow(i)
		case <-gather.C:
			if !r.delimited && len(r.pending) > 0 && time.Since(r.since) > gathering {
				r.flush(false)
			}
		case <-beat.C:
			r.beat()
		case <-ctx.Done():
			return
		}
	}
}

// begin executes the statement.
func (r *run) begin(ctx context.Context) (session wire.Session, err error) {
	q := r.query
	args, err := columnar.DecodeValues(q.Args)
	if err != nil {
		return nil, err
	}
	o := r.a.o.Target
	if q.Process != "" || q.Exe != "" {
		o = wire.Options{Process: q.Process, Exe: q.Exe}
	}
	o.Marks, o.Live, o.Unread, o.User, o.Labels = true, previewEvery, unread, &wire.User{Name: q.author, Via: "fleet"}, r.a.o.Host.Labels
	o.Standing = q.Standing != nil
	if session, err = r.a.o.Engine.NewSession(ctx, o); err != nil {
		return nil, err
	}
	if err = prelude(ctx, session, q.Prelude); err == nil {
		r.res, err = r.start(ctx, session, args)
	}
	if err != nil {
		return nil, errors.Join(err, session.Close())
	}
	h := bus.Header{Kind: bus.ItemBegin, Columns: r.res.Columns(), Text: r.res.Message()}
	r.cols, r.how = h.Columns, bus.InOrder
	if h.Share = r.res.Info().Share; h.Share != nil {
		f, err := planpb.Decode(h.Share.Plan)
		if err != nil {
			return nil, errors.Join(err, r.res.Close(), session.Close())
		}
		r.shape(f)
	}
	r.add(h, bus.InOrder, nil)
	return session, nil
}

func (r *run) start(ctx context.Context, s wire.Session, args []types.Value) (wire.Result, error) {
	if r.query.Share {
		if of, ok := s.(wire.Sharer); ok {
			return of.ExecuteShare(ctx, r.a.o.Host.Name, r.query.Text, args...)
		}
	}
	return s.Execute(ctx, r.query.Text, args...)
}

// prelude executes the statements of a session before the query.
func prelude(ctx context.Context, s wire.Session, statements []string) error {
	for _, text := range statements {
		res, err := s.Execute(ctx, text)
		if err != nil {
			return err
		}
		if err := res.Close(); err != nil {
			return err
		}
	}
	return nil
}

// shape determines how the results of a plan are sent.
func (r *run) shape(f *plan.Fragment) {
	x := f.Exchange
	r.delimited = x.Again != plan.Once || x.Kind == plan.MergeStates
	r.once = x.Again == plan.Once && r.delimited
	if x.Again == plan.PerRound || r.once {
		r.how = bus.Total
	}
	if p := f.Partial(); x.Kind == plan.MergeStates && p != nil {
		for i := range p.Keys {
			r.keys = append(r.keys, x.Pick[1+i])
		}
	}
}

// step sends an event, or keeps its rows until there are enough for an item.
func (r *run) step(ctx context.Context, st wire.Step) {
	r.mark = max(r.mark, st.Event.Mark)
	switch {
	case st.Err != nil:
		r.end(st.Err)
	case st.Event.Kind == wire.Rows && st.Event.Preview:
		r.preview = append(r.preview, st.Event.Batch)
	case st.Event.Kind == wire.Rows:
		if len(r.pending) == 0 {
			r.since = time.Now()
		}
		r.pending, r.rows = append(r.pending, st.Event.Batch), r.rows+st.Event.Batch.Len()
		r.bytes += st.Event.Batch.Len() * 16 * len(r.cols)
		switch {
		case r.delimited && r.rows > mostRows:
			r.res.Stop()
			r.end(&parser.Error{Msg: "the host has more groups than it can send at a time", Hint: "group by something with fewer values", Pos: parser.Span{Start: -1}})
		case !r.delimited && r.bytes > 2*bus.MostBytes:
			r.flush(false)
		}
	case st.Event.Kind == wire.Preview:
		if r.delimited && r.how == bus.Total {
			r.spread(ctx)
			r.add(bus.Header{Kind: bus.ItemRows, Flush: true, Preview: true}, bus.Total, r.preview)
		}
		release(&r.preview)
	case st.Event.Kind == wire.Flush && r.once: // one item has the whole result: it replaces previews
	case st.Event.Kind == wire.Flush:
		if r.delimited {
			r.spread(ctx)
		}
		r.flush(true)
	case st.Event.Kind == wire.Notice:
		r.add(bus.Header{Kind: bus.ItemNotice, Text: st.Event.Text}, bus.Loose, nil)
	}
}

// spread waits, so that not all hosts send at one time.
func (r *run) spread(ctx context.Context) { sleep(ctx, r.a.spread(spreading)) }

// flush sends the pending rows.
func (r *run) flush(complete bool) {
	h := bus.Header{Kind: bus.ItemRows, Flush: complete}
	if complete {
		r.round++
	}
	if r.how == bus.Total && !r.summed {
		sum := r.res.Summary()
		h.Summary, r.summed = &sum, true
	}
	h.Round = r.round
	r.add(h, r.how, r.pending)
	release(&r.pending)
	r.rows, r.bytes = 0, 0
}

// end sends what is left, and the end of the result.
func (r *run) end(err error) {
	if len(r.pending) > 0 || r.once && err == io.EOF {
		r.flush(r.delimited)
	}
	h := bus.Header{Kind: bus.ItemEnd, Text: r.res.Message()}
	if err != io.EOF {
		h.Refusal, r.failed = refusalOf(err), true
	}
	_ = r.res.Close()
	sum := r.res.Summary()
	h.Summary = &sum
	r.add(h, bus.InOrder, nil)
	r.done = true
}

// add numbers an item, encodes its rows and sends it.
func (r *run) add(h bus.Header, how bus.Delivery, bs []*batch.Batch) {
	h.Mark, h.Echo = r.mark, r.returned()
	var parts [][]byte
	var rows uint64
	if h.Kind == bus.ItemRows {
		for _, b := range bs {
			rows += uint64(b.Len())
		}
		var err error
		if parts, err = bus.EncodeRows(r.cols, r.keys, bs); err != nil {
			r.a.o.Log.Error("rows cannot be sent", "query", r.query.ID, "error", err)
			r.over = true
			return
		}
	}
	ms, err := r.out.Add(h, how, parts, rows)
	if err != nil {
		r.a.o.Log.Error("rows cannot be sent", "query", r.query.ID, "error", err)
		r.over = true
		return
	}
	r.send(ms...)
}

// send publishes messages to the root.
func (r *run) send(ms ...[]byte) {
	host := r.a.o.Host.Name
	for _, m := range ms {
		r.a.publish(bus.About{Kind: bus.KindResult, Query: r.query.ID, Host: host}, r.query.Subject(host), m)
	}
}

// beat says that the host is alive, and how far its result is, unless a total has just said so. If
// that was lost the next beat tells.
func (r *run) beat() {
	if r.summed {
		r.summed = false
		return
	}
	h := bus.Header{Mark: r.mark, Echo: r.returned()}
	if r.res != nil && !r.done {
		sum := r.res.Summary()
		h.Summary = &sum
	}
	if m, err := r.out.Beat(h); err == nil {
		r.send(m)
	}
}

// returned returns the last lease's time to its root.
func (r *run) returned() *bus.Echo {
	if r.echo == nil {
		return nil
	}
	e := *r.echo
	e.Returned = time.Now().UnixNano()
	return &e
}

// follow follows an instruction.
func (r *run) follow(i instruction) {
	switch {
	case i.over:
		r.over = true
	case i.ending && r.res != nil:
		r.res.Stop()
	}
	if i.echo != nil {
		r.echo = i.echo
	}
	r.out.Acknowledge(i.next)
	if i.missing > 0 {
		if ms, err := r.out.Since(i.missing, resent); err == nil {
			r.send(ms...)
		}
	}
}

// drop releases what was not sent.
func (r *run) drop() {
	release(&r.pending)
	release(&r.preview)
}

func release(bs *[]*batch.Batch) {
	for _, b := range *bs {
		b.Release()
	}
	*bs = slices.Delete(*bs, 0, len(*bs))
}

// refusalOf returns an error as the root shows it.
func refusalOf(err error) *bus.Refusal {
	var mistake *parser.Error
	if errors.As(err, &mistake) {
		return &bus.Refusal{Msg: mistake.Msg, Hint: mistake.Hint, Src: mistake.Src, Start: mistake.Pos.Start, Stop: mistake.Pos.Stop, Syntax: mistake.Syntax}
	}
	return &bus.Refusal{Msg: err.Error(), Start: -1}
}

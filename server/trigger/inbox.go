package trigger

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/server/answer"
	"endoscope/server/flow"
	"endoscope/server/wire"
)

// inboxRows is the number of rows of its triggers that a session may leave
// unread. Further ones are lost and counted.
const inboxRows = 1 << 16

// Inbox holds the rows of a session's triggers until the session reads them.
type Inbox struct {
	mu      sync.Mutex
	rows    []inboxRow
	lost    uint64
	made    []*Trigger                 // created by the session
	live    map[*Trigger]*subscription // that have not ended
	read    map[string]int             // number of the session's queries that read a trigger's stream, by qualified name
	changed chan struct{}              // holds a token after a change
	closed  bool
}

type inboxRow struct {
	trigger string
	streamRow
}

// subscription is the session's listener at one trigger.
type subscription struct {
	in        *Inbox
	name, key string // plain and qualified
}

func NewInbox() *Inbox {
	return &Inbox{live: map[*Trigger]*subscription{}, read: map[string]int{}, changed: make(chan struct{}, 1)}
}

func (s *subscription) deliver(rows []streamRow) {
	in := s.in
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.read[s.key] > 0 {
		return
	}
	for _, r := range rows {
		if len(in.rows) >= inboxRows {
			in.lost++
			continue
		}
		in.rows = append(in.rows, inboxRow{s.name, r})
	}
	in.signal()
}

func (s *subscription) end() {}

func (in *Inbox) signal() {
	select {
	case in.changed <- struct{}{}:
	default:
	}
}

// Follow subscribes to a trigger that the session creates.
func (in *Inbox) Follow(t *Trigger) {
	sub := &subscription{in: in, name: t.Plan.Name, key: t.Plan.Key}
	in.mu.Lock()
	in.live[t], in.made = sub, append(in.made, t)
	in.mu.Unlock()
	t.Stream.listen(sub)
}

// Reading records that a query of the session reads triggers' streams. Their
// rows are not put into the inbox until done is called.
func (in *Inbox) Reading(p *plan.Query) (done func()) {
	var names []string
	for _, leaf := range plan.Leaves(p.Root) {
		if leaf.Stream == catalog.TriggerStream {
			names = append(names, leaf.Args[0].V.S)
		}
	}
	add := func(n int) {
		in.mu.Lock()
		defer in.mu.Unlock()
		for _, name := range names {
			in.read[name] += n
		}
	}
	add(1)
	return func() { add(-1) }
}

// ended is called when a trigger publishes no more rows.
func (in *Inbox) ended(t *Trigger) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.live, t)
	in.signal()
}

// Unfollow undoes Follow.
func (in *Inbox) Unfollow(t *Trigger) {
	in.mu.Lock()
	sub := in.live[t]
	in.made = slices.DeleteFunc(in.made, func(o *Trigger) bool { return o == t })
	in.mu.Unlock()
	if sub != nil {
		t.Stream.ignore(sub)
	}
	in.ended(t)
}

// Close is called when the session stops reading; its triggers go on.
func (in *Inbox) Close() {
	in.mu.Lock()
	in.closed = true
	live := make([]*Trigger, 0, len(in.live))
	for t := range in.live {
		live = append(live, t)
	}
	in.rows = nil
	in.signal()
	in.mu.Unlock()
	for _, t := range live {
		in.Unfollow(t)
	}
}

// takeRows removes the oldest rows, up to a batch. more reports that others may
// follow.
func (in *Inbox) takeRows() (rows []inboxRow, more bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	n := min(len(in.rows), batch.MaxRows)
	rows = append(rows, in.rows[:n]...)
	if in.rows = in.rows[n:]; len(in.rows) == 0 {
		in.rows = nil
	}
	return rows, len(in.live) > 0
}

// Result returns the rows, until the session ends if follow is set, and
// otherwise until its triggers have ended.
func (in *Inbox) Result(follow bool) wire.Result {
	return &triggered{in: in, follow: follow, stop: make(chan struct{}), began: time.Now()}
}

// triggered is the client's view of an inbox.
type triggered struct {
	in     *Inbox
	follow bool // until the session ends, and not only its triggers
	stop   chan struct{}
	once   sync.Once
	rows   atomic.Uint64
	began  time.Time
	took   atomic.Int64 // ns, when it has ended
}

func (r *triggered) Columns() []wire.Column {
	return []wire.Column{{Name: "timestamp", Type: types.Timestamp}, answer.Text("trigger"), answer.Number("activation"), answer.Text("action"), answer.Text("row")}
}

func (r *triggered) Message() string { return "" }

func (*triggered) Info() wire.Info { return wire.Info{} }

func (r *triggered) Stop() { r.once.Do(func() { close(r.stop) }) }

func (r *triggered) Close() error { r.Stop(); return nil }

func (r *triggered) Next(ctx context.Context) (wire.Event, error) {
	for {
		rows, more := r.in.takeRows()
		if len(rows) > 0 {
			r.rows.Add(uint64(len(rows)))
			b := batch.New([]types.Type{types.Timestamp, types.Varchar, types.Bigint, types.Varchar, types.Varchar})
			for _, w := range rows {
				b.AppendRow(types.Time(w.at), types.Str(w.trigger), types.Int(w.activation), types.Str(w.action), types.Str(w.row))
			}
			return wire.Event{Kind: wire.Rows, Batch: b}, nil
		}
		if Stopped(r.stop) || r.in.isClosed() || !more && !r.follow {
			r.took.Store(int64(time.Since(r.began)))
			return wire.Event{}, io.EOF
		}
		select {
		case <-r.in.changed:
		case <-r.stop:
		case <-ctx.Done():
			return wire.Event{}, ctx.Err()
		}
	}
}

func Stopped(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (in *Inbox) isClosed() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.closed
}

func (r *triggered) Summary() wire.Summary {
	r.in.mu.Lock()
	made, unread := slices.Clone(r.in.made), r.in.lost // Unfollow modifies the slice
	r.in.mu.Unlock()
	sum := flow.NewTally()
	for _, t := range made {
		sum.Merge(t.Losses())
	}
	sum.AddLost(fmt.Sprintf("more than %d rows unread", inboxRows), unread)
	return wire.Summary{Rows: r.rows.Load(), Elapsed: time.Duration(r.took.Load()), Losses: sum.Losses(), Counts: sum.Counts()}
}

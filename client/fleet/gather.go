package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// hostEvent is one event of one host, its end, or, with joins, a host that is added.
type hostEvent struct {
	part  *part
	ev    wire.Event
	over  bool
	joins bool
}

// gathered is the combined result of all hosts, in order of arrival.
type gathered struct {
	s         *session
	parts     []*part
	host      int // index of the column host; < 0: none
	limit     int64
	cols      []wire.Column
	upper     *upper // the upper part, executed over what the hosts send; nil if there is none
	shift     []int  // columns with times, from which the host's clock offset is subtracted
	numbers   atomic.Int64
	footnotes []string // about the statement, for the footer
	events    chan hostEvent
	ctx       context.Context
	cancel    context.CancelFunc
	begin     sync.Once
	notes     []wire.Event // notices about hosts, to be returned next; only the reader accesses them
	of        *upper       // what all hosts agree on; nil: they execute the statement alone
	from      Published    // nil: hosts that are connected
	notices   notices
	separate  bool // results of hosts are not combined, nor their notices
	all       bool // no more hosts are awaited; only the reader accesses it

	mu    sync.Mutex
	err   error
	rows  uint64
	full  bool // the limit was reached
	began time.Time
	took  time.Duration
}

// gather combines the results of all hosts into one. host is the index of the
// column with the host names.
func (s *session) gather(parts []*part, host int, limit int64) *gathered {
	g := &gathered{s: s, parts: parts, from: s.published, host: host, limit: limit, events: make(chan hostEvent), began: time.Now()}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	for _, p := range parts {
		p.heard, p.number = g.began, g.numbers.Add(1)
		if p.res == nil {
			p.over = true
			continue
		}
		if cols := p.res.Columns(); cols != nil && g.cols == nil {
			g.cols = cols
			if host >= 0 {
				g.cols = slices.Insert(slices.Clone(cols), min(host, len(cols)), wire.Column{Name: plan.HostColumn, Type: types.Varchar})
			}
		}
	}
	return g
}

func (g *gathered) Columns() []wire.Column { return g.cols }

// Message returns the message common to all hosts, or the message of each host.
func (g *gathered) Message() string {
	var said []string
	for _, p := range g.parts {
		if p.res != nil && p.res.Message() != "" {
			said = append(said, p.res.Message())
		}
	}
	if same := slices.Compact(slices.Clone(said)); len(same) <= 1 {
		return strings.Join(same, "")
	}
	said = said[:0]
	for _, p := range g.parts {
		if p.res != nil {
			said = append(said, p.name+": "+p.res.Message())
		}
	}
	return strings.Join(said, "; ")
}

// Info implements wire.Result.
func (*gathered) Info() wire.Info { return wire.Info{} }

// start starts a goroutine for each host, which reads its result.
func (g *gathered) start() {
	var all sync.WaitGroup
	for _, p := range g.parts {
		if p.res != nil {
			all.Go(func() { g.read(p) })
		}
	}
	if g.from != nil {
		all.Go(func() { g.join(&all) })
	}
	ctx, enough := context.WithCancel(g.ctx)
	var asking sync.WaitGroup
	asking.Go(func() { // clocks drift
		for {
			select {
			case <-time.After(remeasured):
				g.s.clocks.measure(ctx, g.s.reached())
			case <-ctx.Done():
				return
			}
		}
	})
	go func() {
		all.Wait()
		enough()
		asking.Wait()
		g.mu.Lock()
		g.took = time.Since(g.began)
		g.mu.Unlock()
		close(g.events)
	}()
}

// read reads one host's result to its end.
func (g *gathered) read(p *part) {
	names := hostColumn(p.name)
	for {
		ev, err := p.res.Next(g.ctx)
		switch {
		case g.ctx.Err() != nil:
			return
		case err == io.EOF:
			g.deliver(hostEvent{part: p, over: true})
			return
		case err != nil:
			g.mu.Lock()
			if p.err == nil { // else it is excluded
				p.err = err
				if !gone(err) && g.err == nil {
					g.err = placed(p.name, err)
					g.cancel()
				}
			}
			g.mu.Unlock()
			g.deliver(hostEvent{part: p, over: true})
			return
		case ev.Preview || ev.Kind == wire.Preview:
			if ev.Batch != nil {
				ev.Batch.Release()
			}
			continue
		}
		ev.Row = 0
		if ev.Kind == wire.Notice && !g.separate && p.member.shard == nil {
			if ev.Text = g.notices.text(p.name, ev.Text, len(g.s.members)); ev.Text == "" {
				continue
			}
		}
		if ev.Batch != nil {
			var ok bool
			if ev.Batch, ok = g.label(p, ev.Batch, names); !ok {
				_ = p.res.Close() // the limit is reached
				g.deliver(hostEvent{part: p, over: true})
				return
			}
		}
		if !g.deliver(hostEvent{part: p, ev: ev}) {
			return
		}
	}
}

// deliver passes an event of a host to the reader. It returns false if the result
// was closed.
func (g *gathered) deliver(x hostEvent) bool {
	select {
	case g.events <- x:
		return true
	case <-g.ctx.Done():
		if x.ev.Batch != nil {
			x.ev.Batch.Release()
		}
		return false
	}
}

// label counts rows up to the limit and adds the column with the host's name.
func (g *gathered) label(p *part, b *batch.Batch, names *batch.Column) (*batch.Batch, bool) {
	g.mu.Lock()
	n := b.Len()
	if g.limit > 0 {
		n = min(n, int(g.limit-int64(g.rows)))
	}
	g.rows += uint64(n)
	filled := g.limit > 0 && g.rows == uint64(g.limit) && !g.full
	g.full = g.full || filled
	g.mu.Unlock()
	if filled {
		go g.Stop() // the others need not go on
	}
	if n == 0 {
		b.Release()
		return nil, false
	}
	b = first(b, int64(n))
	if g.of != nil && g.of.estimated() {
		g.mu.Lock()
		b = g.of.ofHost(b, p)
		g.mu.Unlock()
	}
	if len(g.shift) > 0 {
		return shifted(b, g.shift, g.s.clocks.ahead(p.member)), true
	}
	if g.host < 0 {
		return b, true
	}
	with := b.Derive(nil, slices.Insert(slices.Clone(b.Cols), min(g.host, len(b.Cols)), *names))
	b.Release()
	return with, true
}

// patience is how long a host may send neither rows nor watermarks before the
// others no longer wait for it.
const patience = 5 * time.Second

// next returns the next event of any host; io.EOF when all have ended, and errLate
// when late fires first.
func (g *gathered) next(ctx context.Context, late <-chan time.Time) (hostEvent, error) {
	g.begin.Do(g.start)
	select {
	case x, ok := <-g.events:
		if ok {
			g.record(x)
			if x.part.drop {
				if x.ev.Batch != nil {
					x.ev.Batch.Release()
				}
				x.ev = wire.Event{Kind: wire.Mark}
			}
			return x, nil
		}
	case <-late:
		return hostEvent{}, errLate
	case <-ctx.Done():
		return hostEvent{}, ctx.Err()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return hostEvent{}, g.err
	}
	return hostEvent{}, io.EOF
}

// errLate reports that nothing arrived in time.
var errLate = errors.New("no rows yet")

// record records that a host made progress or ended.
func (g *gathered) record(x hostEvent) {
	p := x.part
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case x.joins:
		g.parts = append(g.parts, p)
	case x.over:
		p.over, p.lost = true, p.err != nil
		if p.lost && !p.drop && gone(p.err) {
			g.note("%s is lost, and the others go on: %v", p.name, p.err)
		}
	case x.ev.Mark > p.mark, x.ev.Batch != nil:
		p.mark, p.heard = max(p.mark, x.ev.Mark), time.Now()
		if g.s.reduces { // one that has followed reads what has arrived long ago
			p.heard = p.res.Summary().Arrived
		}
		if p.silent && time.Since(p.heard) < g.s.limits.patience {
			p.silent = false
			g.note("%s sends again: the result waits for it", p.name)
		}
	}
}

// exclude stops reading a host that sends what cannot be part of the result.
func (g *gathered) exclude(p *part, format string, args ...any) {
	g.mu.Lock()
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
	why := p.err
	p.over, p.lost, p.drop = true, true, true
	g.mu.Unlock()
	g.note("%s is left out, and the others go on: %v", p.name, why)
	p.take(true)
	p.res.Stop()
}

// complete returns the states that a host has sent once all states of a result
// have arrived: with Flush, or at the host's end. States of a result that a lost
// host sent only in part are dropped: part of a group would be merged as if it
// were the whole group. More than mostPending rows are returned before the result
// is complete.
func (g *gathered) complete(x hostEvent) []*batch.Batch {
	p := x.part
	if x.ev.Batch != nil {
		p.queue = append(p.queue, x.ev.Batch)
		p.queued += x.ev.Batch.Len()
	}
	if x.over || x.ev.Kind == wire.Flush || p.queued > mostPending {
		return p.take(x.over && p.lost)
	}
	return nil
}

// note queues a notice about a host.
func (g *gathered) note(format string, args ...any) {
	g.notes = append(g.notes, wire.Event{Kind: wire.Notice, Text: fmt.Sprintf(format, args...)})
}

// nextNote returns the next queued notice; ok is false if there is none.
func (g *gathered) nextNote() (ev wire.Event, ok bool) {
	if len(g.notes) == 0 {
		return ev, false
	}
	ev, g.notes = g.notes[0], g.notes[1:]
	return ev, true
}

// waitsFor reports whether a host is waited for: it is connected and makes
// progress. The windows of a shard are given once, and wait for another reducer.
func (g *gathered) waitsFor(p *part) bool {
	since := time.Since(p.heard)
	waits := p.member.shard != nil && g.of.Exchange.Again == plan.PerWindow && since < takeover
	switch {
	case p.over:
		return false
	case since < g.s.limits.patience, p.arriving(g.s.limits.patience):
		return true
	case !p.silent:
		g.mu.Lock()
		p.silent = true
		g.mu.Unlock()
		how := "the result no longer waits for it"
		if waits {
			how = "windows wait for another reducer"
		}
		g.note("%s has sent nothing for %v: %s", p.name, g.s.limits.patience, how)
	}
	return waits
}

// awaits reports whether hosts that have not answered may soon: rows that follow what is returned
// meanwhile would be late.
func (g *gathered) awaits() bool {
	if g.from != nil && !g.all {
		_, awaited := g.from.Expected()
		g.all = awaited == 0
	}
	return g.from != nil && !g.all
}

func (g *gathered) Next(ctx context.Context) (wire.Event, error) {
	for {
		if ev, ok := g.nextNote(); ok {
			return ev, nil
		}
		x, err := g.next(ctx, nil)
		if err != nil {
			return wire.Event{}, err
		}
		if !x.over && x.ev.Kind != wire.Mark {
			return x.ev, nil
		}
	}
}

// Stop implements wire.Result.
func (g *gathered) Stop() {
	for _, p := range g.parts {
		if p.res != nil {
			p.res.Stop()
		}
	}
}

// Close implements wire.Result. A host that does not confirm in time that nothing
// of the query is attached is marked.
func (g *gathered) Close() error {
	g.cancel()
	var open []*member
	of := map[*member][]*part{} // two where the host was restarted
	for _, p := range g.parts {
		if p.res == nil {
			continue
		}
		if of[p.member] == nil {
			open = append(open, p.member)
		}
		of[p.member] = append(of[p.member], p)
	}
	_, errs := ask(context.Background(), open, forStatements, func(_ context.Context, m *member) (struct{}, error) {
		var err error
		for _, p := range of[m] {
			err = errors.Join(err, p.res.Close())
		}
		return struct{}{}, err
	})
	if g.from != nil {
		g.from.Close()
	}
	g.mu.Lock()
	for i, m := range open {
		for _, p := range of[m] {
			switch {
			case p.err != nil:
			case isSilent(errs[i]):
				p.err = fmt.Errorf("%w: its probes may still be attached", errs[i])
			default:
				p.err = errs[i]
			}
		}
	}
	g.mu.Unlock()
	g.begin.Do(func() { close(g.events) })
	for x := range g.events {
		if x.ev.Batch != nil {
			x.ev.Batch.Release()
		}
	}
	for _, p := range g.parts {
		release(p.queue)
		release(p.last)
		for _, r := range p.rounds {
			release(r.rows)
		}
		p.queue, p.last, p.rounds = nil, nil, nil
	}
	return nil
}

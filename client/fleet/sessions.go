package fleet

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"slices"

	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// Sessions of several hosts. Hosts send pieces (see package distribute), from
// which sessions are assembled.

// sessions merges the pieces of sessions. Times are by this machine's clock: a host's
// less by how much its own is ahead.
type sessions struct {
	aligned
	open       map[string][]*piece         // by partition, in the order in which they begin
	incomplete map[*part]map[string]*piece // by window and group: incomplete pieces; nil: the piece was late
	held       int                         // their number of rows
	closed     int64                       // sessions that end here or before are closed
}

// piece is the part of a session in one group of one window of a host.
type piece struct {
	first, last int64
	rows        []*batch.Batch // empty if none of its rows counts
}

func newSessions(g *gathered) *sessions {
	return &sessions{aligned: aligned{gathered: g}, open: map[string][]*piece{}, incomplete: map[*part]map[string]*piece{}, closed: math.MinInt64}
}

func (s *sessions) Columns() []wire.Column { return s.upper.cols }
func (s *sessions) Message() string        { return "" }

func (s *sessions) Next(ctx context.Context) (wire.Event, error) { return s.advance(ctx, s) }

func (s *sessions) gap() int64 { return int64(s.upper.Exchange.Gap) }

func (s *sessions) accept(_ context.Context, x hostEvent) error {
	for _, b := range s.complete(x) {
		s.add(x.part, b)
	}
	if x.over || x.ev.Kind == wire.Flush { // a window is complete
		delete(s.incomplete, x.part)
	}
	return nil
}

// add adds the pieces that rows of a host are, and releases these.
func (s *sessions) add(of *part, b *batch.Batch) {
	defer b.Release()
	incomplete := s.incomplete[of]
	if incomplete == nil {
		incomplete = map[string]*piece{}
		s.incomplete[of] = incomplete
	}
	x := s.upper.Exchange
	ahead := int64(s.s.clocks.ahead(of.member))
	var key, partition []byte
	for i := range b.Len() {
		r := b.Row(i)
		partition = partition[:0]
		for c := range x.Spans.Partitions {
			partition = appendKey(partition, b.Cols[x.Spans.Partition+c].Value(r))
		}
		key = append(key[:0], partition...)
		for _, c := range x.Pick[1 : 1+len(s.upper.states().Keys)] {
			key = appendKey(key, b.Cols[c].Value(r))
		}
		p, more := incomplete[string(key)]
		if !more {
			p = &piece{first: b.Cols[x.Spans.First].Int[r] - ahead, last: b.Cols[x.Spans.Last].Int[r] - ahead}
			if p.last+s.gap() <= s.closed {
				s.late.Add(1)
				p = nil
			}
			incomplete[string(key)] = p
			if p != nil {
				list := s.open[string(partition)]
				at, _ := slices.BinarySearchFunc(list, p, func(a, b *piece) int { return cmp.Compare(a.first, b.first) })
				s.open[string(partition)] = slices.Insert(list, at, p)
			}
		}
		if p != nil && (len(p.rows) > 0 || b.Cols[x.Spans.Count].Int[r] > 0) {
			p.rows = append(p.rows, b.View([]uint16{uint16(r)}))
			s.held++
		}
	}
}

// appendKey appends a value so that values of a column that are one group are equal, and
// others are not.
func appendKey(b []byte, v types.Value) []byte {
	if v.IsNull {
		return append(b, 0)
	}
	b = binary.LittleEndian.AppendUint64(append(b, 1), uint64(v.I))
	b = binary.LittleEndian.AppendUint64(b, rowstore.CanonicalBits(v.F))
	if v.A != nil {
		v.S = rowstore.AnyText(v.A)
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(len(v.S)))
	return append(b, v.S...)
}

// whole is a complete session.
type whole struct {
	start, end int64
	rows       []*batch.Batch
}

// settle returns the sessions that no host can still extend. What a host has not
// sent yet lies in windows that end after its mark.
func (s *sessions) settle(ctx context.Context) error {
	until, waiting, all := int64(math.MaxInt64), 0, 0
	for _, p := range s.gathered.parts {
		if p.over {
			continue
		}
		if all++; s.waitsFor(p) {
			waiting++
			until = min(until, p.mark-p.mark%s.gap()-int64(s.s.clocks.ahead(p.member)))
		}
	}
	if all > 0 && waiting == 0 || !s.over && s.awaits() {
		until = math.MinInt64 // all remaining hosts are silent, or are not known: so is their progress
	}
	ended := s.ended(until)
	if len(ended) == 0 && s.held > mostPending {
		next := int64(math.MaxInt64)
		for _, list := range s.open {
			start := 0
			end := s.end(list, &start)
			next = min(next, end)
		}
		ended = s.ended(next)
		s.rushed.Add(uint64(len(ended)))
		until = max(until, next)
	}
	s.closed = max(s.closed, until)
	slices.SortStableFunc(ended, func(a, b whole) int { return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.start, b.start)) })
	for len(ended) > 0 {
		// Those of several partitions that begin and end at the same times are one window.
		n := 1
		for n < len(ended) && ended[n].start == ended[0].start && ended[n].end == ended[0].end {
			ended[0].rows = append(ended[0].rows, ended[n].rows...)
			n++
		}
		if err := s.emit(ctx, ended[0]); err != nil {
			for _, w := range ended[n:] {
				release(w.rows)
			}
			return err
		}
		ended = ended[n:]
	}
	return nil
}

// end returns the end of the session that begins with list[*at], and moves at past
// it.
func (s *sessions) end(list []*piece, at *int) int64 {
	last := list[*at].last
	for *at++; *at < len(list) && list[*at].first < last+s.gap(); *at++ {
		last = max(last, list[*at].last)
	}
	return last + s.gap()
}

// ended removes and returns the sessions that end at or before a time.
func (s *sessions) ended(until int64) (out []whole) {
	for key, list := range s.open {
		kept := list[:0]
		for at := 0; at < len(list); {
			from := at
			end := s.end(list, &at)
			if end > until {
				kept = append(kept, list[from:at]...)
				continue
			}
			w := whole{start: list[from].first, end: end}
			for _, sp := range list[from:at] {
				w.rows = append(w.rows, sp.rows...)
				s.held -= len(sp.rows)
			}
			if len(w.rows) > 0 {
				out = append(out, w)
			}
		}
		if s.open[key] = kept; len(kept) == 0 {
			delete(s.open, key)
		}
	}
	return out
}

// emit computes the result of a session.
func (s *sessions) emit(ctx context.Context, w whole) error {
	x := s.upper.Exchange
	start, end := constantColumn(s.cols[x.Start].Type, w.start), constantColumn(s.cols[x.End].Type, w.end)
	for i, r := range w.rows {
		cols := slices.Clone(r.Cols)
		cols[x.Start], cols[x.End] = start, end
		w.rows[i] = r.Derive(nil, cols)
		r.Release()
	}
	events, rows, err := s.upper.result(ctx, s.armed(), w.rows)
	if err != nil {
		return err
	}
	s.returned.Add(rows)
	s.out = append(append(s.out, events...), wire.Event{Kind: wire.Flush})
	return nil
}

func (s *sessions) Close() error {
	for _, list := range s.open {
		for _, sp := range list {
			release(sp.rows)
		}
	}
	s.open = nil
	return s.aligned.Close()
}

// Summary returns the number of result rows, the other counters of the hosts, and
// how exact the borders of sessions are.
func (s *sessions) Summary() wire.Summary {
	sum := s.gathered.Summary()
	sum.Rows = s.returned.Load()
	addLate(&sum, s.late.Load(), s.rushed.Load())
	if len(s.gathered.parts) < 2 {
		return sum
	}
	if within, ok := s.s.clocks.within(); ok {
		sum.Notes = append(sum.Notes, "sessions of all hosts are right within ±"+roundedUp(within))
	} else {
		sum.Notes = append(sum.Notes, "sessions of all hosts are by their clocks, whose difference is unknown")
	}
	return sum
}

package fleet

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"endoscope/operators/batch"
	"endoscope/parser"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// Sessions of several hosts. Which rows make a session follows from all hosts' rows, so
// that no host knows where one ends. Each gives windows that are as long as the gap,
// and when the first and the last row of them was: these are less than the gap apart,
// so that all of a window's rows are of one session, and a session is windows of any
// hosts of which each begins less than the gap after all before it have ended.
//
// A condition in WHERE says which rows count, not which ones make sessions: it becomes
// one of what is aggregated. One of what sessions are partitioned by says which sessions
// there are, and stays: it may decide what hosts observe.

// checkSession prepares the first stage of sessions, and refuses what needs to know
// their borders already.
func (w *splitter) checkSession() error {
	if len(w.sel.From.Joins) > 0 {
		return nil // a host says what is wrong with that
	}
	inside := func(e parser.Expr) error {
		x, found := find(e, func(e parser.Expr) bool { c, ok := e.(*parser.ColumnRef); return ok && isBorder(c) })
		if !found {
			return nil
		}
		return w.refuse(x, "HAVING can test "+w.text(x), "a host does not know where a SESSION of several hosts begins and ends")
	}
	if w.sel.Where != nil {
		for _, c := range conjuncts(w.sel.Where) {
			if w.ofPartition(c) {
				w.before = both(w.before, w.text(c))
			} else {
				w.where = both(w.where, w.text(c))
			}
		}
		if err := inside(w.sel.Where); err != nil {
			return err
		}
	}
	for _, k := range w.sel.GroupBy {
		if c, ok := k.(*parser.ColumnRef); ok && isBorder(c) {
			continue
		}
		if err := inside(k); err != nil {
			return err
		}
	}
	var all []parser.Expr
	for _, i := range w.sel.Items {
		if i.X != nil {
			all = append(all, i.X)
		}
	}
	if w.sel.Having != nil {
		all = append(all, w.sel.Having)
	}
	for _, x := range all {
		if c, ok := find(x, func(e parser.Expr) bool { _, ok := aggregate(e); return ok }); ok {
			if err := inside(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// conjuncts are the conditions that an expression is the conjunction of.
func conjuncts(e parser.Expr) []parser.Expr {
	if b, ok := e.(*parser.Binary); ok && strings.EqualFold(b.Op, "AND") {
		return append(conjuncts(b.X), conjuncts(b.Y)...)
	}
	return []parser.Expr{e}
}

// ofPartition reports whether a condition is about what sessions are partitioned by.
func (w *splitter) ofPartition(cond parser.Expr) bool {
	columns := 0
	_, other := find(cond, func(e parser.Expr) bool {
		switch e := e.(type) {
		case *parser.ColumnRef:
			columns++
			return !slices.ContainsFunc(w.session.By, func(by parser.Expr) bool {
				c, ok := by.(*parser.ColumnRef)
				return ok && c.Parts[len(c.Parts)-1].Name == e.Parts[len(e.Parts)-1].Name
			})
		case *parser.Call:
			return true // of now() it would be about when
		}
		return false
	})
	return columns > 0 && !other
}

// partitions are the expressions by which sessions are apart.
func (w *splitter) partitions() []string {
	if w.again != bySession {
		return nil
	}
	var by []string
	for _, e := range w.session.By {
		by = append(by, w.text(e))
	}
	return by
}

// from is what every host reads from.
func (w *splitter) from() string {
	if w.again != bySession {
		return w.text(w.sel.From)
	}
	s := w.session
	text := "TUMBLE(" + w.text(s.Src) + ", " + w.text(s.Args[0]) + ")"
	if s.Alias != nil {
		text += " AS " + w.text(s.Alias)
	}
	return text
}

// Columns of the first stage of sessions.
const (
	sessionFirst = 2 + iota // when the first row was
	sessionLast
	sessionCount // how many rows count
	sessionKeys
)

// sessions is the second stage of sessions. Times are by this machine's clock: a host's
// less by how much its own is ahead.
type sessions struct {
	paced
	second *second
	gap    int64
	parts  []int // columns of the partition
	open   map[string][]span
	held   int   // rows of them
	closed int64 // sessions that end here or before are closed

	given  atomic.Uint64 // rows of results
	late   atomic.Uint64 // groups of sessions that were closed before they came
	rushed atomic.Uint64 // sessions that did not wait
}

// span is what a session has of one window of a host.
type span struct {
	first, last int64
	rows        *batch.Batch // one row, or nil if none of its rows counts
}

func newSessions(g *gathered, second *second, m *merge) *sessions {
	s := &sessions{paced: paced{gathered: g}, second: second, gap: m.gap, open: map[string][]span{}, closed: math.MinInt64}
	for i := range m.parts {
		s.parts = append(s.parts, sessionKeys+m.keys+i)
	}
	return s
}

func (s *sessions) Columns() []wire.Column { return s.second.cols }
func (s *sessions) Message() string        { return "" }

func (s *sessions) Next(ctx context.Context) (wire.Event, error) { return s.advance(ctx, s) }

func (s *sessions) take(_ context.Context, x given) error {
	b := x.ev.Batch
	if b == nil {
		return nil
	}
	defer b.Release()
	ahead := int64(s.s.clocks.ahead(x.part.member))
	var key []byte
	for i := range b.Len() {
		r := b.Row(i)
		first, last := b.Cols[sessionFirst].Int[r]-ahead, b.Cols[sessionLast].Int[r]-ahead
		if last+s.gap <= s.closed {
			s.late.Add(1)
			continue
		}
		key = key[:0]
		for _, c := range s.parts {
			key = appendKey(key, b.Cols[c].Value(r))
		}
		sp := span{first: first, last: last}
		if b.Cols[sessionCount].Int[r] > 0 {
			sp.rows = b.View([]uint16{uint16(r)})
			s.held++
		}
		list := s.open[string(key)]
		at, _ := slices.BinarySearchFunc(list, sp, func(a, b span) int { return cmp.Compare(a.first, b.first) })
		s.open[string(key)] = slices.Insert(list, at, sp)
	}
	return nil
}

// appendKey appends a value so that equal ones of a column are equal, and others are
// not.
func appendKey(b []byte, v types.Value) []byte {
	if v.IsNull {
		return append(b, 0)
	}
	b = binary.LittleEndian.AppendUint64(append(b, 1), uint64(v.I))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v.F))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(v.S)))
	return append(b, v.S...)
}

// session is one that is whole.
type whole struct {
	start, end int64
	rows       []*batch.Batch
}

// settle gives the sessions that no host can have more of. What a host has not given
// yet lies in windows that end after its mark.
func (s *sessions) settle(ctx context.Context) error {
	until, waiting, all := int64(math.MaxInt64), 0, 0
	for _, p := range s.gathered.parts {
		if p.over {
			continue
		}
		if all++; s.awaited(p) {
			waiting++
			until = min(until, p.mark-p.mark%s.gap-int64(s.s.clocks.ahead(p.member)))
		}
	}
	if all > 0 && waiting == 0 {
		until = math.MinInt64 // nothing says how far any of them is
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
		if err := s.give(ctx, ended[0]); err != nil {
			for _, w := range ended[n:] {
				release(w.rows)
			}
			return err
		}
		ended = ended[n:]
	}
	return nil
}

// end is when the session ends that begins with list[*at], and puts at behind it.
func (s *sessions) end(list []span, at *int) int64 {
	last := list[*at].last
	for *at++; *at < len(list) && list[*at].first < last+s.gap; *at++ {
		last = max(last, list[*at].last)
	}
	return last + s.gap
}

// ended takes the sessions that end at or before a time.
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
				if sp.rows != nil {
					w.rows = append(w.rows, sp.rows)
					s.held--
				}
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

// give gives the result of a session.
func (s *sessions) give(ctx context.Context, w whole) error {
	start, end := constantColumn(s.cols[0].Type, w.start), constantColumn(s.cols[1].Type, w.end)
	for i, b := range w.rows {
		cols := slices.Clone(b.Cols)
		cols[0], cols[1] = start, end
		w.rows[i] = b.Derive(nil, cols)
		b.Release()
	}
	events, rows, err := s.second.of(ctx, w.rows)
	if err != nil {
		return err
	}
	s.given.Add(rows)
	s.out = append(append(s.out, events...), wire.Event{Kind: wire.Flush})
	return nil
}

// constantColumn is a column with the same number in every row.
func constantColumn(t types.Type, at int64) batch.Column {
	c := batch.Column{Type: t, Int: make([]int64, batch.MaxRows)}
	for i := range c.Int {
		c.Int[i] = at
	}
	return c
}

func (s *sessions) Close() error {
	for _, list := range s.open {
		for _, sp := range list {
			if sp.rows != nil {
				sp.rows.Release()
			}
		}
	}
	s.open = nil
	return s.paced.Close()
}

// Summary has the results' rows, what the hosts say besides, and how far the borders of
// sessions can be relied on.
func (s *sessions) Summary() wire.Summary {
	sum := s.gathered.Summary()
	sum.Rows = s.given.Load()
	addLate(&sum, s.late.Load(), s.rushed.Load())
	if len(s.gathered.parts) < 2 {
		return sum
	}
	if within, ok := s.s.clocks.within(); ok {
		sum.Notes = append(sum.Notes, "sessions of all hosts are right within ±"+roundedUp(within))
	} else {
		sum.Notes = append(sum.Notes, "sessions of all hosts are by clocks of which nothing is known")
	}
	return sum
}

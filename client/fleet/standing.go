package fleet

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"endoscope/operators/batch"
	"endoscope/parser"
	"endoscope/planner/plan"
	"endoscope/planner/standing"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// Standing is the result of a standing query: windows, which have revisions while hosts may
// be late. Its columns are those of the query with the end of the window, the number of the
// revision, and whether that is final (package standing).
//
// A window is given when no host that is waited for has more of it. It is final then if all
// hosts have given theirs, or else when lateness has passed. A host's rows that come
// meanwhile make a revision. Later they are dropped, and counted.
//
// Hosts keep their rows of a window until it is stored as a final one: who receives the
// result after a restart receives them again, and resumes at the windows that are stored.
type Standing struct {
	aligned
	lateness time.Duration
	resumed  int64     // windows that end here or before were final before this result began
	final    int64     // windows that end here or before are final
	open     []*period // by their ends, then by their beginnings
	held     int       // their rows
	returned []wire.StandingWindow
	last     wire.StandingWindow
	resent   atomic.Uint64 // groups of windows that were final before this result began
	columns  []wire.Column
}

// period is a window of which hosts have sent rows, or that is final while an earlier one is
// not.
type period struct {
	start, end int64
	rows       []*batch.Batch
	revision   int64     // of the next result
	closed     time.Time // when hosts were no longer waited for; zero: they are
	given      time.Time // when the last one was
	changed    bool      // rows have arrived since
	final      bool
}

// revisedEvery is the shortest interval between revisions of a window.
const revisedEvery = 500 * time.Millisecond

// Keep combines the results of a published standing query. from is what was stored of them.
func Keep(ctx context.Context, stmt parser.Statement, p Published, lateness time.Duration, from *wire.StandingStored) (*Standing, error) {
	r, err := Collect(ctx, stmt, p)
	if err != nil {
		return nil, err
	}
	w, ok := r.(*rounds)
	if !ok || w.by != plan.PerWindow {
		_ = r.Close()
		return nil, fmt.Errorf("the query has no windows of a fixed size, or hosts compute results of their own")
	}
	s := &Standing{aligned: aligned{gathered: w.gathered}, lateness: lateness, resumed: math.MinInt64, final: math.MinInt64}
	s.columns = slices.Concat([]wire.Column{{Name: standing.Time, Type: types.Timestamp}}, w.upper.cols,
		[]wire.Column{{Name: standing.Revision, Type: types.Bigint}, {Name: standing.Final, Type: types.Boolean}})
	if from != nil {
		s.resumed, s.final = from.Upto, from.Upto
		for _, w := range from.Open {
			s.period(w.Start, w.End, &period{revision: w.Revision + 1, final: w.Final})
		}
	}
	return s, nil
}

// Columns implements wire.Result.
func (s *Standing) Columns() []wire.Column { return s.columns }

// Message implements wire.Result.
func (s *Standing) Message() string { return "" }

// Next implements wire.Result. After a Flush, Window is the window of the rows before it.
func (s *Standing) Next(ctx context.Context) (wire.Event, error) {
	ev, err := s.advance(ctx, s)
	if err == nil && ev.Kind == wire.Flush {
		s.last, s.returned = s.returned[0], s.returned[1:]
	}
	return ev, err
}

// Window returns the window of the last Flush.
func (s *Standing) Window() wire.StandingWindow { return s.last }

// Stored lets hosts drop what is in the windows that were returned, which are stored.
func (s *Standing) Stored() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		p.stored(s.last.Upto)
	}
}

// period returns the window with these borders; if there is none, it adds one.
func (s *Standing) period(start, end int64, as *period) *period {
	at, found := slices.BinarySearchFunc(s.open, as, func(w, _ *period) int {
		return cmp.Or(cmp.Compare(w.end, end), cmp.Compare(w.start, start))
	})
	if !found {
		as.start, as.end = start, end
		s.open = slices.Insert(s.open, at, as)
	}
	return s.open[at]
}

// accept implements alignment.
func (s *Standing) accept(_ context.Context, x hostEvent) error {
	s.due = true
	end := int64(math.MinInt64)
	for _, b := range s.complete(x) {
		end = max(end, s.divide(b))
	}
	if x.ev.Kind == wire.Flush {
		s.delivered(x.part, x.ev.Round, end)
	} else if end > math.MinInt64 && !x.over {
		s.exclude(x.part, "it sends more than %d rows at once", mostPending)
	}
	return nil
}

// divide adds rows to their windows, and returns the last end of these.
func (s *Standing) divide(b *batch.Batch) (last int64) {
	defer b.Release()
	last = math.MinInt64
	starts, ends := b.Cols[s.upper.Exchange.Start].Int, b.Cols[s.upper.Exchange.End].Int
	for from := 0; from < b.Len(); {
		start, end := starts[b.Row(from)], ends[b.Row(from)]
		var of []uint16
		for from < b.Len() && starts[b.Row(from)] == start && ends[b.Row(from)] == end {
			of = append(of, uint16(b.Row(from)))
			from++
		}
		last = max(last, end)
		if end <= s.resumed {
			s.resent.Add(uint64(len(of)))
			continue
		}
		if end <= s.final {
			s.late.Add(uint64(len(of)))
			continue
		}
		w := s.period(start, end, &period{})
		if w.final {
			s.late.Add(uint64(len(of)))
			continue
		}
		w.rows, w.changed = append(w.rows, b.View(of)), true
		s.held += len(of)
	}
	return last
}

// settle implements alignment: it gives windows that are over, their revisions, and the final
// ones.
func (s *Standing) settle(ctx context.Context) error {
	if !s.due {
		return nil
	}
	s.due = false
	s.prune()
	expected, awaited := s.from.Expected()
	until, past := s.progress()
	if awaited > 0 && s.held <= mostPending {
		return nil // what they have kept may be of the windows that are open
	}
	now := time.Now()
	for len(s.open) > 0 && s.held > mostPending && s.open[0].end > until {
		until = s.open[0].end
		s.rushed.Add(1)
	}
	for _, w := range s.open {
		if w.end > until && w.closed.IsZero() {
			continue
		}
		first, complete := w.closed.IsZero(), past(w.end) >= expected
		if first {
			w.closed = now
		}
		final := complete || now.Sub(w.closed) >= s.lateness || s.held > mostPending
		switch {
		case w.final:
		case first, final, w.changed && now.Sub(w.given) >= revisedEvery:
			if err := s.give(ctx, w, final, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// mostReplaced is how many parts of hosts that were restarted since are kept, for the footer.
const mostReplaced = 1000

// prune drops the oldest parts of hosts that were restarted since.
func (s *Standing) prune() {
	if len(s.parts) <= len(s.s.members)+2*mostReplaced {
		return
	}
	last := map[string]*part{}
	for _, p := range s.parts {
		last[p.name] = p
	}
	left := len(s.parts) - len(last) - mostReplaced
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = slices.DeleteFunc(s.parts, func(p *part) bool {
		old := left > 0 && p.over && last[p.name] != p
		if old {
			left--
		}
		return old
	})
}

// progress returns the time before which no host that is waited for has more rows, and a
// function that returns how many hosts have given all their rows before a time.
func (s *Standing) progress() (until int64, past func(end int64) int) {
	until = math.MaxInt64
	waiting, all := 0, 0
	marks := map[string]int64{} // by host: of its last start
	for _, p := range s.parts {
		switch {
		case p.over && !p.lost && p.res != nil:
			marks[p.name] = math.MaxInt64
		case p.over:
			delete(marks, p.name)
		default:
			if all++; s.waitsFor(p) {
				waiting++
				until = min(until, p.mark)
			}
			marks[p.name] = p.mark
		}
	}
	if all > 0 && waiting == 0 {
		until = math.MinInt64 // all remaining hosts are silent: their progress is unknown
	}
	return until, func(end int64) (n int) {
		for _, m := range marks {
			if m >= end {
				n++
			}
		}
		return n
	}
}

// give returns the result of a window so far.
func (s *Standing) give(ctx context.Context, w *period, final bool, now time.Time) error {
	all := make([]*batch.Batch, len(w.rows))
	for i, b := range w.rows {
		all[i] = b.Retain()
	}
	events, n, err := s.upper.result(ctx, s.armed(), all)
	if err != nil {
		return err
	}
	for i := range events {
		events[i].Batch = s.labelled(events[i].Batch, w, final)
	}
	s.aligned.returned.Add(n)
	s.out = append(append(s.out, events...), wire.Event{Kind: wire.Flush, Mark: w.end})
	if w.given, w.changed, w.final = now, false, final; final {
		for _, b := range w.rows {
			s.held -= b.Len()
		}
		release(w.rows)
		w.rows = nil
	}
	out := wire.StandingWindow{Start: w.start, End: w.end, Revision: w.revision, Final: final}
	w.revision++
	for len(s.open) > 0 && s.open[0].final {
		s.final, s.open = max(s.final, s.open[0].end), s.open[1:]
	}
	out.Upto = s.final
	s.returned = append(s.returned, out)
	return nil
}

// labelled adds the columns that say which result of which window rows are.
func (s *Standing) labelled(b *batch.Batch, w *period, final bool) *batch.Batch {
	revisions := constantColumn(types.Bigint, w.revision)
	finals := batch.Column{Type: types.Boolean, Bool: make([]bool, batch.MaxRows)}
	for i := range finals.Bool {
		finals.Bool[i] = final
	}
	out := b.Derive(nil, slices.Concat([]batch.Column{constantColumn(types.Timestamp, w.end)}, b.Cols, []batch.Column{revisions, finals}))
	b.Release()
	return out
}

// Coverage says how many hosts have answered, which have not, and whose rows are in other
// windows than they should be, since a clock there is wrong.
func (s *Standing) Coverage() string {
	text := s.gathered.Coverage()
	if wrong := s.wrongClocks(); len(wrong) > 0 {
		text += fmt.Sprintf(", clocks that differ by more than %v: %s", s.lateness, some(wrong))
	}
	return text
}

// wrongClocks returns the hosts whose clocks certainly differ from the one here by more than
// lateness, with the differences.
func (s *Standing) wrongClocks() (wrong []string) {
	s.mu.Lock()
	var names []string
	for _, p := range s.parts {
		if p.res != nil && p.err == nil && !slices.Contains(names, p.name) {
			names = append(names, p.name)
		}
	}
	s.mu.Unlock()
	for _, name := range names {
		ahead, by, err := s.from.Clock(name)
		if err != nil || ahead.Abs()-by <= s.lateness {
			continue
		}
		what := "ahead"
		if ahead < 0 {
			what = "behind"
		}
		wrong = append(wrong, fmt.Sprintf("%s (%v %s, ±%s)", name, ahead.Abs().Round(time.Millisecond), what, roundedUp(by)))
	}
	return wrong
}

// Close implements wire.Result.
func (s *Standing) Close() error {
	for _, w := range s.open {
		release(w.rows)
	}
	s.open = nil
	return s.aligned.Close()
}

// resentCause is the cause of groups that hosts have sent again after a restart of the root,
// which had stored their windows.
const resentCause = "groups of windows that were stored before"

// Summary implements wire.Result.
func (s *Standing) Summary() wire.Summary {
	sum := s.gathered.Summary()
	sum.Rows = s.aligned.returned.Load()
	addLate(&sum, s.late.Load(), s.rushed.Load())
	if wrong := s.wrongClocks(); len(wrong) > 0 {
		sum.Notes = append(sum.Notes, "windows are by the clock of each host, and these differ by more than the lateness: "+some(wrong))
	}
	if n := s.resent.Load(); n > 0 {
		sum.Counts = add(sum.Counts, []wire.Loss{{Cause: resentCause, N: n}})
	}
	return sum
}

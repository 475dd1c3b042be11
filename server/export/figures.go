package export

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/planner"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/server/flow"
)

// figures is the last operator of an export of figures. It keeps the latest row of each
// series and publishes them as a Snapshot: each time the query has emitted its totals, and,
// if its rows are samples, at intervals.
//
// A query with totals emits all groups each time; more than the limit are there, but not
// exported: those that changed last are.
type figures struct {
	plan      *planner.Export
	tally     *flow.Tally
	published func(*Snapshot) // called for each snapshot; must not block. nil: nobody
	samples   bool            // the rows are samples, not totals
	lives     time.Duration   // how long a series of samples lives without a sample
	now       func() time.Time

	// Of the runner alone.
	known map[string]*series
	round []*series // the rows of this round, in order
	n     uint64    // number of the round
	last  time.Time // when samples were published
	key   []byte

	began atomic.Int64 // ns since the epoch: counters count from here
	shot  atomic.Pointer[Snapshot]
	left  atomic.Uint64 // series that the limit has left out; again if they had come back
}

// series is one combination of labels.
type series struct {
	labels  []string
	values  []float64 // by metric; the sum of a histogram. NaN: NULL
	shapes  []any     // by metric, of histograms: a sketch (string), or a list of buckets
	seen    uint64    // round
	changed uint64    // round
	at      time.Time // of its last sample
	left    bool      // out, by the limit
	stack   []types.Value
}

// Snapshot is the state of an export's series at one time. It does not change.
type Snapshot struct {
	At, Began int64 // ns since the epoch
	Points    []Point
}

// Point is a series in a snapshot.
type Point struct {
	Labels []string // by label of the plan
	Values []float64
	Shapes []any
	Stack  []types.Value // of a profile: frames, leaf first
}

// Len returns the number of points; 0 for nil.
func (s *Snapshot) Len() int {
	if s == nil {
		return 0
	}
	return len(s.Points)
}

func newFigures(p *planner.Export, t *flow.Tally) *figures {
	f := &figures{plan: p, tally: t, now: time.Now, known: map[string]*series{}, samples: plan.EmitEvery(p.Query.Root) == 0}
	f.lives = 5 * p.Options.Interval
	for _, leaf := range plan.Leaves(p.Query.Root) {
		f.lives = max(f.lives, 3*leaf.Every)
	}
	return f
}

// Snapshot returns the latest snapshot, or nil.
func (f *figures) Snapshot() *Snapshot { return f.shot.Load() }

func (f *figures) Push(_ context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	now := f.now()
	for _, r := range batch.RowsOf(b) {
		row := int(r)
		f.key = f.key[:0]
		for _, l := range f.plan.Labels {
			f.key = appendLabel(f.key, &b.Cols[l.Column], row)
			f.key = append(f.key, 0)
		}
		s := f.known[string(f.key)]
		if s == nil {
			if f.samples && len(f.known) >= 4*f.plan.Options.Series {
				f.tally.AddLost("samples of series far beyond the limit", 1)
				continue
			}
			s = f.add()
			if f.plan.Stack >= 0 {
				s.stack, _ = b.Cols[f.plan.Labels[f.plan.Stack].Column].Any[row].([]types.Value)
			}
		}
		switch {
		case s.seen != f.n+1:
			s.seen = f.n + 1
			f.round = append(f.round, s)
		case !f.samples:
			f.tally.AddLost("rows with the labels of another", 1)
		}
		s.at = now
		if f.take(s, b, row) {
			s.changed = s.seen
		}
	}
	f.publishSamples(now)
	return operators.More, nil
}

// add adds a series for the labels in key.
func (f *figures) add() *series {
	n := len(f.plan.Metrics)
	key := string(f.key)
	s := &series{labels: strings.Split(key, "\x00")[:len(f.plan.Labels)], values: make([]float64, n)}
	for _, m := range f.plan.Metrics {
		if m.Kind >= planner.Exponential && s.shapes == nil {
			s.shapes = make([]any, n)
		}
	}
	f.known[key] = s
	return s
}

// take stores the values of a row, and reports whether they have changed.
func (f *figures) take(s *series, b *batch.Batch, row int) (changed bool) {
	for i := range f.plan.Metrics {
		m := &f.plan.Metrics[i]
		c := &b.Cols[m.Column]
		if m.Kind >= planner.Exponential {
			switch {
			case c.Nulls.Get(row):
				s.shapes[i] = nil
			case m.Kind == planner.Exponential:
				s.shapes[i] = c.Values[c.Code[row]]
			default:
				s.shapes[i] = c.Any[row]
			}
			c = &b.Cols[m.Sum]
		}
		v := number(c, row, m.Unit.Per)
		if m.Part != planner.AllFigures && (m.Part == planner.ExactFigures) != isExact(m, b, row) {
			v = math.NaN()
		}
		if v != s.values[i] && !(v != v && s.values[i] != s.values[i]) {
			if m.Kind == planner.Counter && v < s.values[i] {
				f.tally.AddLost("a counter went down: it is no counter", 1)
			}
			s.values[i], changed = v, true
		}
	}
	return changed
}

// isExact reports whether a row's figure is no estimate: its interval is one value.
func isExact(m *planner.Metric, b *batch.Batch, row int) bool {
	low, high := &b.Cols[m.Low], &b.Cols[m.High]
	return !low.Nulls.Get(row) && !high.Nulls.Get(row) && number(low, row, 1) == number(high, row, 1)
}

// number returns a row's value in the unit of its metric; NaN for NULL.
func number(c *batch.Column, row int, per float64) float64 {
	if c.Nulls.Get(row) {
		return math.NaN()
	}
	switch c.Type.Physical() {
	case types.PhysInt:
		return c.Type.Float(c.Int[row]) / per
	case types.PhysFloat:
		return c.Float[row] / per
	case types.PhysBool:
		if c.Bool[row] {
			return 1
		}
		return 0
	}
	return math.NaN()
}

// appendLabel appends a row's value as the text of a label; NULL is the empty one. Bytes that
// are no text are replaced, so that series are told apart by what receivers accept.
func appendLabel(to []byte, c *batch.Column, row int) []byte {
	if c.Nulls.Get(row) {
		return to
	}
	switch c.Type.Physical() {
	case types.PhysCode:
		s := c.Values[c.Code[row]]
		if !utf8.ValidString(s) {
			s = strings.ToValidUTF8(s, "\uFFFD")
		}
		return append(to, strings.ReplaceAll(s, "\x00", "\uFFFD")...)
	case types.PhysInt:
		if c.Type == types.Bigint || c.Type == types.Ubigint {
			return c.Type.AppendInt(to, c.Int[row])
		}
	case types.PhysBool:
		return strconv.AppendBool(to, c.Bool[row])
	}
	return append(to, plan.FormatValue(c.Value(row))...)
}

func (f *figures) Signal(_ context.Context, _ int, s operators.Signal) (operators.Status, error) {
	switch {
	case s.Kind == operators.Gap:
		f.tally.AddLost(s.Cause, s.N)
	case s.Kind == operators.Flush && !s.Preview:
		f.publish()
	default:
		f.publishSamples(f.now())
	}
	return operators.More, nil
}

func (f *figures) Close(context.Context, int) error {
	if f.samples || len(f.round) > 0 {
		f.publish()
	}
	return nil
}

// publishSamples publishes samples if an interval has passed.
func (f *figures) publishSamples(now time.Time) {
	if !f.samples || now.Sub(f.last) < f.plan.Options.Interval {
		return
	}
	f.last = now
	f.round = f.round[:0]
	for key, s := range f.known {
		if now.Sub(s.at) > f.lives {
			delete(f.known, key)
			continue
		}
		s.seen = f.n + 1
		f.round = append(f.round, s)
	}
	f.publish()
}

// publish makes the rows of this round the snapshot, and begins the next round.
func (f *figures) publish() {
	f.n++
	limit := f.plan.Options.Series
	shown := f.round
	if len(shown) > limit {
		// The order of those that changed last in the same round is kept, so that they
		// do not take turns.
		shown = slices.Clone(shown)
		slices.SortStableFunc(shown, func(a, b *series) int {
			switch {
			case a.changed > b.changed:
				return -1
			case a.changed < b.changed:
				return 1
			}
			return 0
		})
		for _, s := range shown[limit:] {
			if !s.left {
				f.left.Add(1)
			}
			s.left = true
		}
		shown = shown[:limit]
	}
	shot := &Snapshot{At: f.now().UnixNano(), Began: f.began.Load(), Points: make([]Point, len(shown))}
	m := len(f.plan.Metrics)
	values := make([]float64, 0, m*len(shown))
	for i, s := range shown {
		s.left = false
		values = append(values, s.values...)
		shot.Points[i] = Point{Labels: s.labels, Values: values[i*m : (i+1)*m : (i+1)*m], Shapes: slices.Clone(s.shapes), Stack: s.stack}
	}
	f.shot.Store(shot)
	if f.published != nil {
		f.published(shot)
	}
	f.forget()
	clear(f.round)
	f.round = f.round[:0]
}

// forget removes series that the query does not have any more, such as those of windows.
func (f *figures) forget() {
	if f.samples || len(f.known) <= 2*len(f.round)+1024 {
		return
	}
	for key, s := range f.known {
		if s.seen != f.n {
			delete(f.known, key)
		}
	}
}

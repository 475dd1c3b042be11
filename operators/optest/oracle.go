package optest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Oracle is the naive engine. It ignores previews (which must not change other results) and
// writes no files: an INSERT returns its count.
type Oracle struct {
	// Eager makes it compute, and fail by, every operand that an engine is allowed to
	// compute. See scalars.
	Eager bool
}

// Run implements [Engine].
func (o Oracle) Run(root plan.Node, in *Input) (*Output, error) {
	r := &run{in: in, scalars: scalars{o.Eager}, done: map[plan.Node]*stream{}}
	s := r.eval(root)
	out := &Output{}
	for _, e := range s.events {
		switch e.kind {
		case row:
			out.Add(e.row)
		case flush:
			out.Flush(false)
		case lost:
			out.Lose(e.cause, e.n)
		}
	}
	return out, s.err
}

// run is the evaluation of one plan.
type run struct {
	in *Input
	scalars
	done map[plan.Node]*stream
}

// stream is the whole output of a node, until it ends or fails.
type stream struct {
	events []event
	err    error
}

type eventKind uint8

const (
	row       eventKind = iota
	endBatch            // rows that came together end here
	watermark           // of time
	tick                // of time: EMIT EVERY
	lost                // n for cause
	flush
	ended // the source has ended
)

// event is a row or a signal. Every stream has all ticks.
type event struct {
	kind  eventKind
	step  int // of the input: when it happens
	row   []types.Value
	time  int64
	cause string
	n     uint64
}

func (s *stream) add(e event) { s.events = append(s.events, e) }

func (s *stream) fail(err error) *stream {
	s.err = err
	return s
}

// with returns e with another row.
func (e event) with(row []types.Value) event {
	e.row = row
	return e
}

func (r *run) eval(n plan.Node) *stream {
	if s := r.done[n]; s != nil {
		return s
	}
	s := r.node(n)
	r.done[n] = s
	return s
}

func (r *run) node(n plan.Node) *stream {
	switch n := n.(type) {
	case *plan.Acquire:
		return r.acquire(n)
	case *plan.Values:
		s := &stream{}
		for _, cells := range n.Rows {
			var vs []types.Value
			for _, c := range cells {
				vs = append(vs, c.V)
			}
			s.add(event{row: vs})
		}
		return s
	case *plan.Filter:
		return r.filter(r.eval(n.Input), n.Cond)
	case *plan.Project:
		return r.project(r.eval(n.Input), n.Exprs)
	case *plan.Window:
		return r.window(n, r.eval(n.Input))
	case *plan.Aggregate:
		return r.aggregate(n, r.eval(n.Input))
	case *plan.Distinct:
		return distinct(r.eval(n.Input), n.PerFlush)
	case *plan.Sort:
		return r.sort(n, r.eval(n.Input))
	case *plan.Limit:
		return limit(r.eval(n.Input), n)
	case *plan.Union:
		var ins []*stream
		for _, in := range n.Ins {
			ins = append(ins, r.eval(in))
		}
		return union(ins, n.Out.Time)
	case *plan.Join:
		return r.join(n, r.eval(n.Left), r.eval(n.Right))
	case *plan.Insert:
		in := r.eval(n.Input)
		out, count := &stream{err: in.err}, int64(0)
		for _, e := range in.events {
			switch e.kind {
			case row:
				count++
			case lost:
				out.add(e)
			}
		}
		if in.err == nil {
			out.add(event{kind: row, step: r.lastStep(), row: []types.Value{types.Int(count)}})
		}
		return out
	}
	return &stream{err: fmt.Errorf("no meaning for %s", n.Describe())}
}

// lastStep is the step at which streams end that did not end before.
func (r *run) lastStep() int { return len(r.in.Steps) }

func (r *run) acquire(n *plan.Acquire) *stream {
	name := StreamOf(n)
	at := Columns(n, r.in.Relations[name])
	s := &stream{}
	open := true
	for i, step := range r.in.Steps {
		if !open {
			break
		}
		if step.Kind == Tick {
			s.add(event{kind: tick, step: i, time: step.Time})
		}
		if step.Stream != name {
			continue
		}
		switch step.Kind {
		case Rows:
			for _, vs := range step.Rows {
				pruned := make([]types.Value, len(at))
				for j, c := range at {
					pruned[j] = vs[c]
				}
				s.add(event{kind: row, step: i, row: pruned})
			}
			s.add(event{kind: endBatch, step: i})
		case Watermark:
			s.add(event{kind: watermark, step: i, time: step.Time})
		case Gap:
			s.add(event{kind: lost, step: i, cause: step.Cause, n: step.N})
		case End:
			s.add(event{kind: ended, step: i})
			open = false
		}
	}
	if n.Filter != nil {
		return r.filter(s, n.Filter)
	}
	return s
}

func (r *run) filter(in *stream, cond plan.Expr) *stream {
	out := &stream{err: in.err}
	for _, e := range in.events {
		if e.kind == row {
			keep, err := r.holds(cond, e.row)
			if err != nil {
				return out.fail(err)
			}
			if !keep {
				continue
			}
		}
		out.add(e)
	}
	return out
}

func (r *run) project(in *stream, exprs []plan.Expr) *stream {
	out := &stream{err: in.err}
	for _, e := range in.events {
		if e.kind == row {
			vs, err := r.all(exprs, e.row)
			if err != nil {
				return out.fail(err)
			}
			e = e.with(vs)
		}
		out.add(e)
	}
	return out
}

func (r *run) all(exprs []plan.Expr, row []types.Value) ([]types.Value, error) {
	vs := make([]types.Value, len(exprs))
	for i, x := range exprs {
		var err error
		if vs[i], err = r.scalars.eval(x, row); err != nil {
			return nil, err
		}
	}
	return vs, nil
}

// key returns equal texts for equal rows: NULL equals NULL here, NaN equals NaN, and 0
// equals -0.
func key(vs []types.Value) string {
	var b strings.Builder
	for _, v := range vs {
		switch {
		case v.IsNull:
			b.WriteString("n")
		case v.Type == types.Double && math.IsNaN(v.F):
			b.WriteString("N")
		case v.Type == types.Double:
			fmt.Fprintf(&b, "%x", math.Float64bits(v.F+0))
		default:
			fmt.Fprintf(&b, "%q", printed(v))
		}
		b.WriteByte('|')
	}
	return b.String()
}

func distinct(in *stream, perFlush bool) *stream {
	out := &stream{err: in.err}
	seen := map[string]bool{}
	for _, e := range in.events {
		switch {
		case e.kind == flush && perFlush:
			clear(seen)
		case e.kind == row:
			k := key(e.row)
			if seen[k] {
				continue
			}
			seen[k] = true
		}
		out.add(e)
	}
	return out
}

func limit(in *stream, n *plan.Limit) *stream {
	out := &stream{err: in.err}
	left, skips := n.N, n.Skip
	for _, e := range in.events {
		switch {
		case e.kind == flush && n.PerFlush:
			left, skips = n.N, n.Skip
		case e.kind == row && left == 0 && n.PerFlush:
			continue
		case left == 0 && !n.PerFlush:
			return &stream{events: out.events} // an error after the end does not count
		case e.kind == row && skips > 0:
			skips--
			continue
		case e.kind == row:
			left--
		}
		out.add(e)
	}
	if left == 0 && !n.PerFlush {
		out.err = nil
	}
	return out
}

// sort orders each result. If nothing below divides results there is only one, which EMIT
// EVERY emits at each tick.
func (r *run) sort(n *plan.Sort, in *stream) *stream {
	out := &stream{err: in.err}
	divided := slices.ContainsFunc(in.events, func(e event) bool { return e.kind == flush })
	var held [][]types.Value
	give := func(step int) {
		slices.SortStableFunc(held, func(a, b []types.Value) int { return r.compareKeys(n.Keys, a, b) })
		for i, vs := range held {
			if n.Limit > 0 && int64(i) >= n.Limit {
				break
			}
			out.add(event{kind: row, step: step, row: vs})
		}
		out.add(event{kind: flush, step: step})
	}
	for _, e := range in.events {
		switch e.kind {
		case row:
			held = append(held, e.row)
			continue
		case flush:
			give(e.step)
			held = nil
			continue
		case tick:
			if n.Emit.Mode == plan.Every && !divided {
				give(e.step)
			}
		}
		out.add(e)
	}
	if in.err == nil && (len(held) > 0 || !divided) {
		give(r.lastStep())
	}
	return out
}

// compareKeys orders rows. The keys are columns or expressions that cannot fail on rows
// that got this far.
func (r *run) compareKeys(keys []plan.SortKey, a, b []types.Value) int {
	for _, k := range keys {
		x, _ := r.scalars.eval(k.X, a)
		y, _ := r.scalars.eval(k.X, b)
		c := nullsLast(x, y)
		if k.Desc {
			c = -c // and NULLs first
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

func nullsLast(x, y types.Value) int {
	switch {
	case x.IsNull && y.IsNull:
		return 0
	case x.IsNull:
		return 1
	case y.IsNull:
		return -1
	}
	return Order(x, y)
}

// union merges by time: the rows of a step wait until no input can produce earlier ones.
func union(ins []*stream, timeCol int) *stream {
	type arrival struct {
		event
		port int
	}
	out := &stream{}
	var all []arrival
	last := math.MaxInt
	for port, in := range ins {
		for _, e := range in.events {
			all = append(all, arrival{e, port})
		}
		if in.err != nil && len(in.events) > 0 {
			last = min(last, in.events[len(in.events)-1].step)
		}
		out.err = cmp.Or(out.err, in.err)
	}
	slices.SortStableFunc(all, func(a, b arrival) int { return cmp.Compare(a.step, b.step) })
	marks := make([]int64, len(ins))
	ticks := make([]int, len(ins))
	for i := range marks {
		marks[i] = math.MinInt64
	}
	var held []event
	release := func(to int64, step int) {
		slices.SortStableFunc(held, func(a, b event) int { return cmp.Compare(a.row[timeCol].I, b.row[timeCol].I) })
		for len(held) > 0 && held[0].row[timeCol].I <= to {
			e := held[0]
			e.step = step
			out.add(e)
			held = held[1:]
		}
	}
	for _, a := range all {
		switch a.kind {
		case row:
			if timeCol < 0 {
				out.add(a.event)
			} else {
				held = append(held, a.event)
				release(slices.Min(marks), a.step)
			}
		case watermark, ended:
			before := slices.Min(marks)
			if marks[a.port] = max(marks[a.port], a.time); a.kind == ended {
				marks[a.port], ticks[a.port] = math.MaxInt64, math.MaxInt
			}
			if now := slices.Min(marks); now > before {
				if timeCol >= 0 {
					release(now, a.step)
				}
				kind := watermark
				if now == math.MaxInt64 {
					kind = ended
				}
				out.add(event{kind: kind, step: a.step, time: now})
			}
		case tick:
			if ticks[a.port]++; slices.Min(ticks) == ticks[a.port] {
				out.add(a.event)
			}
		default:
			out.add(a.event)
		}
	}
	if out.err == nil && timeCol >= 0 {
		release(math.MaxInt64, last)
	}
	return out
}

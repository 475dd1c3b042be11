package encode

import (
	"cmp"
	"math"
	"slices"
	"unsafe"

	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/operators/encoders"
	"endoscope/operators/encoders/structure"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// sequences are those of one group.
type sequences struct {
	order []*sequence
	keyed
	origin  uint64            // that keyed is of
	others  map[uint64]keyed  // those of other origins
	preview encoders.Encoding // the last one returned
	rest    *sequence         // of those for which there was no room
	// For sequences that are compared with a model: a verdict was returned, and it was
	// that one of them does not conform.
	given, departed bool
	past            *structure.Conformance // of sequences that have ended; nil if none has
	pastLeft        *sequence              // of these the first that does not conform
}

// keyed are the unfinished sequences of one origin.
type keyed struct {
	ints  map[int64]*sequence
	texts map[string]*sequence
	last  *sequence // the sequence of the last row; the only one if they are not distinguished
	key   int64     // and its value where that is a number
}

// enter sets keyed to the sequences of an origin.
func (g *sequences) enter(origin uint64) {
	if g.origin == origin {
		return
	}
	if g.others == nil {
		g.others = map[uint64]keyed{}
	}
	g.others[g.origin] = g.keyed
	g.origin, g.keyed = origin, g.others[origin]
}

// sorted returns the sequences ordered by their beginning, then by origin and
// arrival. The one shared by sequences over budget is last.
func (g *sequences) sorted() []*sequence {
	s := slices.Clone(g.order)
	slices.SortFunc(s, func(a, b *sequence) int {
		switch {
		case a == b:
			return 0
		case a == g.rest:
			return 1
		case b == g.rest:
			return -1
		}
		return a.compare(b)
	})
	return s
}

// empty reports whether there was no sequence.
func (g *sequences) empty() bool { return len(g.order) == 0 && g.past == nil }

type sequence struct {
	encoder encoders.Encoder
	last    int64 // when the last call happened
	begun   bool
	// Where it is in the lists of its group and of the aggregate.
	inGroup, inAll int
	// The time of its first row if rows have one, its origin, and how many sequences
	// began before it.
	start  int64
	origin uint64
	number uint64
}

// compare orders sequences by when they began.
func (s *sequence) compare(o *sequence) int {
	return cmp.Or(cmp.Compare(s.start, o.start), cmp.Compare(s.origin, o.origin), cmp.Compare(s.number, o.number))
}

// elapsed returns the time of a call that happened at t: the time since the
// previous call, so that a rule or an arc has the sum of its symbols' times.
func (s *sequence) elapsed(t int64, moments bool) int64 {
	if moments {
		return t
	}
	since := int64(encoders.NoTime)
	if s.begun {
		since = t - s.last
	}
	s.last, s.begun = t, true
	return since
}

// sequence finds or creates the sequence of row r; nil if none has begun there.
func (e *Encoding) sequence(in *fold.Input, r uint16) *sequence {
	s := e.get(in, r)
	if e.born >= 0 {
		if !isTrue(in.More[e.born], r) {
			return s
		}
	} else if s != nil {
		return s
	}
	s = e.begin(in, r)
	e.set(in, r, s)
	return s
}

func isTrue(c *batch.Column, r uint16) bool { return !c.Nulls.Get(int(r)) && c.Bool[r] }

// get returns the sequence of row r, or nil.
func (e *Encoding) get(in *fold.Input, r uint16) *sequence {
	g := &e.groups[in.Groups[r]]
	g.enter(e.origin)
	if e.by < 0 {
		return g.last
	}
	c := in.More[e.by]
	if c.Type.Physical() != types.PhysInt {
		return g.texts[textKey(c, r)]
	}
	if key := intKey(c, r); g.last == nil || g.key != key {
		g.last, g.key = g.ints[key], key
	}
	return g.last
}

// set makes s the sequence of row r; nil removes it.
func (e *Encoding) set(in *fold.Input, r uint16, s *sequence) {
	g := &e.groups[in.Groups[r]]
	g.enter(e.origin)
	if e.by < 0 {
		g.last = s
		return
	}
	c := in.More[e.by]
	if c.Type.Physical() == types.PhysInt {
		g.last, g.key = s, intKey(c, r)
		g.ints = put(g.ints, g.key, s)
		return
	}
	g.texts = put(g.texts, textKey(c, r), s)
}

func put[K comparable](m map[K]*sequence, key K, s *sequence) map[K]*sequence {
	switch {
	case s == nil:
		delete(m, key)
		return m
	case m == nil:
		m = map[K]*sequence{}
	}
	m[key] = s
	return m
}

// intKey and textKey return the value that distinguishes the sequence of row r;
// NULL is a value like any other.
func intKey(c *batch.Column, r uint16) int64 {
	if c.Nulls.Get(int(r)) {
		return math.MinInt64
	}
	return c.Int[r]
}

func textKey(c *batch.Column, r uint16) string {
	if c.Nulls.Get(int(r)) {
		return "\x00NULL"
	}
	return c.Values[c.Code[r]]
}

// begin creates a sequence for row r. When the budget is exhausted, all new
// sequences of a group share one, which counts what is not encoded.
func (e *Encoding) begin(in *fold.Input, r uint16) *sequence {
	g := &e.groups[in.Groups[r]]
	if g.rest != nil {
		return g.rest
	}
	x, _ := e.create(e.alphabet) // newEncoding has tried it
	s := &sequence{encoder: x, inGroup: len(g.order), inAll: len(e.all), origin: e.origin, number: e.begun}
	e.begun++
	if e.clock {
		s.start = in.Times[r]
	}
	switch {
	case e.full:
		x.Freeze()
		g.rest = s
		if !g.empty() {
			x.Label("others")
		}
	case e.by >= 0:
		x.Label(labelOf(in.More[e.by].Value(int(r))))
	}
	e.held += x.Bytes() + int64(unsafe.Sizeof(*s))
	e.all = append(e.all, s)
	g.order = append(g.order, s)
	return s
}

func labelOf(v types.Value) string {
	if v.Type == types.Varchar && !v.IsNull {
		return v.S
	}
	return plan.FormatValue(v)
}

// cut ends the sequence of row r, whose following rows are missing. Later rows
// belong to another sequence, whose beginning was not observed.
func (e *Encoding) cut(in *fold.Input, r uint16) {
	s := e.get(in, r)
	if s == nil {
		return
	}
	s.encoder.Truncate()
	e.set(in, r, e.begin(in, r))
}

package operators

import (
	"cmp"
	"math"
	"slices"
	"unsafe"

	"endoscope/operators/batch"
	"endoscope/operators/encoders"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// sequences are those of one group.
type sequences struct {
	order []*sequence
	keyed
	origin  uint64            // that keyed is of
	others  map[uint64]keyed  // those of other origins
	preview encoders.Encoding // the last that was given
	rest    *sequence         // of those for which there was no room
	// Of those that are compared with a model: a verdict was given, and it was
	// that one of them does not conform.
	given, departed bool
	past            *encoders.Conformance // of those that have ended; nil: none has
	pastLeft        *sequence             // of these the first that does not conform
}

// keyed are the sequences of one origin that go on.
type keyed struct {
	ints  map[int64]*sequence
	texts map[string]*sequence
	last  *sequence // the one of the last row; where none are told apart: the one
	key   int64     // and its value where that is a number
}

// enter makes keyed the sequences of an origin.
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

// sorted are the sequences by when they began, and those that began at one time by
// their origin and arrival. What there was no room for is last.
func (g *sequences) sorted() []*sequence {
	s := slices.Clone(g.order)
	slices.SortFunc(s, func(a, b *sequence) int {
		if a == g.rest || b == g.rest {
			return cmp.Compare(one(a == g.rest), one(b == g.rest))
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
	// The time of its first row, where rows have one, where it comes from, and how
	// many began before it.
	start  int64
	origin uint64
	number uint64
}

// compare orders sequences by when they began.
func (s *sequence) compare(o *sequence) int {
	return cmp.Or(cmp.Compare(s.start, o.start), cmp.Compare(s.origin, o.origin), cmp.Compare(s.number, o.number))
}

// elapsed is the time of a call that happened at t: since the one before, so
// that what a rule or an arc stands for takes the sum of its symbols' times.
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

// sequence finds the sequence of row r, or makes it; nil: none was born there.
func (e *encoding) sequence(in *folding, r uint16) *sequence {
	s := e.get(in, r)
	if e.born >= 0 {
		if !isTrue(in.more[e.born], r) {
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

// get is the sequence of row r, or nil.
func (e *encoding) get(in *folding, r uint16) *sequence {
	g := &e.groups[in.groups[r]]
	g.enter(e.origin)
	if e.by < 0 {
		return g.last
	}
	c := in.more[e.by]
	if c.Type.Physical() != types.PhysInt {
		return g.texts[textKey(c, r)]
	}
	if key := intKey(c, r); g.last == nil || g.key != key {
		g.last, g.key = g.ints[key], key
	}
	return g.last
}

// set makes s the sequence of row r; nil: there is none any more.
func (e *encoding) set(in *folding, r uint16, s *sequence) {
	g := &e.groups[in.groups[r]]
	g.enter(e.origin)
	if e.by < 0 {
		g.last = s
		return
	}
	c := in.more[e.by]
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

// intKey and textKey are what tells the sequence of row r from others; NULL is
// a value like any other.
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

// begin makes a sequence for row r. When the budget is used up all that would
// begin in a group share one, which counts what is not encoded.
func (e *encoding) begin(in *folding, r uint16) *sequence {
	g := &e.groups[in.groups[r]]
	if g.rest != nil {
		return g.rest
	}
	x, _ := e.create(e.alphabet) // newEncoding has tried it
	s := &sequence{encoder: x, inGroup: len(g.order), inAll: len(e.all), origin: e.origin, number: e.begun}
	e.begun++
	if e.clock {
		s.start = in.times[r]
	}
	switch {
	case e.full:
		x.Freeze()
		g.rest = s
		if !g.empty() {
			x.Label("others")
		}
	case e.by >= 0:
		x.Label(labelOf(in.more[e.by].Value(int(r))))
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

// cut ends the sequence of row r, of which what follows is missing. What comes
// after that is of another one, which nobody saw the beginning of.
func (e *encoding) cut(in *folding, r uint16) {
	s := e.get(in, r)
	if s == nil {
		return
	}
	s.encoder.Truncate()
	e.set(in, r, e.begin(in, r))
}

package agg

import (
	"encoding/binary"
	"math"
	"slices"

	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
	"endoscope/planner/types"
)

const (
	// exactSamples is the number of values up to which the quantiles of a group are
	// exact.
	exactSamples = 1000
	// maxSamples bounds the values that an aggregation keeps for exact quantiles, over
	// all its groups, windows and functions: 12 MB. A group that receives a value when
	// there is no room becomes a sketch.
	maxSamples = 1 << 20
)

// sampleRoom is how many values an aggregation keeps.
type sampleRoom struct{ used int }

// samples is the values of each group, for quantiles: all values as long as a group
// has at most exactSamples, then a DDSketch. A bucket of the sketch has the smallest
// and the largest of its values beside their number. The state depends on the values
// only, not on their order, nor on how they were divided and merged (unless there was
// no room).
//
// A value is kept as a word whose order is that of the values: a DOUBLE as wordOf says, an
// integer as types.Type.Key.
type samples struct {
	typ    types.Type // of the values
	floats bool       // it is DOUBLE
	room   *sampleRoom
	counts []int64  // by group: its values
	heads  []uint32 // by group: 1 + its newest value, 0 if none, or sketched

	// The values of all groups, as lists, so that a group with three values costs three
	// entries.
	words []int64
	next  []uint32 // by value: 1 + the group's value before, 0 if none; of a free entry the next free one
	free  uint32   // 1 + the first free entry
	kept  int      // entries that are not free

	buckets pairs
	spans   []span // by entry of buckets

	rows     []uint16 // scratch: those of sketches
	gathered []int64  // scratch
	entries  []uint32 // scratch
}

// span is the smallest and the largest value of a bucket.
type span struct{ low, high int64 }

// sketched marks a group that is a sketch.
const sketched = math.MaxUint32

func newSamples(t types.Type) samples {
	return samples{typ: t, floats: t.Physical() == types.PhysFloat, room: &sampleRoom{}}
}

// share sets the room, which is shared with others.
func (s *samples) share(r *sampleRoom) { s.room = r }

// wordOf returns the word of a DOUBLE: its bits, the lower 63 of them inverted if it
// is negative. Zeros are equal; NaN is larger than every number, as in ORDER BY.
func wordOf(v float64) int64 {
	if v == 0 {
		return 0
	}
	if v != v {
		return math.MaxInt64
	}
	return inverted(int64(math.Float64bits(v)))
}

func inverted(w int64) int64 { return w ^ w>>63&math.MaxInt64 }

// number returns the value of a word.
func (s *samples) number(w int64) float64 {
	if s.floats {
		return math.Float64frombits(uint64(inverted(w)))
	}
	return s.typ.Float(s.typ.Key(w))
}

func (s *samples) bucket(w int64) int64 { return bucketOf(s.number(w)) }

func (s *samples) Grow(n int) {
	s.counts, s.heads = rowstore.Extended(s.counts, n), rowstore.Extended(s.heads, n)
	s.buckets.Grow(n)
}

func (s *samples) Reset() {
	s.room.used -= s.kept
	s.kept = 0
	clear(s.counts)
	clear(s.heads)
	s.counts, s.heads = s.counts[:0], s.heads[:0]
	s.words, s.next, s.free = s.words[:0], s.next[:0], 0
	s.buckets.Reset()
	s.spans = s.spans[:0]
}

// Bytes returns the approximate memory in use.
func (s *samples) Bytes() int64 {
	return int64(len(s.words))*12 + s.buckets.Bytes() + int64(len(s.spans))*16
}

// Update adds the values of rows. Those of sketches come last, in a loop for each step.
func (s *samples) Update(in *fold.Input) {
	rows := s.rows[:0]
	for _, r := range in.Rows {
		if g := in.Groups[r]; s.heads[g] == sketched {
			rows = append(rows, r)
		} else {
			s.add(g, s.word(in.Arg, r))
		}
	}
	if s.rows = rows; s.floats {
		for _, r := range rows {
			in.Words[r] = uint64(bucketOf(in.Arg.Float[r]))
		}
	} else {
		for _, r := range rows {
			in.Words[r] = uint64(bucketOf(s.typ.Float(in.Arg.Int[r])))
		}
	}
	for _, r := range rows {
		w := s.word(in.Arg, r)
		s.counts[in.Groups[r]]++
		s.count(in.Groups[r], in.Words[r], span{w, w}, 1)
	}
}

// word returns the word of a row's value.
func (s *samples) word(c *batch.Column, r uint16) int64 {
	if s.floats {
		return wordOf(c.Float[r])
	}
	return s.typ.Key(c.Int[r])
}

// add adds a value to a group.
func (s *samples) add(group uint32, w int64) {
	n := s.counts[group] + 1
	s.counts[group] = n
	if s.heads[group] != sketched {
		if n <= exactSamples && s.room.used < maxSamples {
			s.keep(group, w)
			return
		}
		s.sketch(group)
	}
	s.addBucket(group, span{w, w}, 1)
}

// addSpan adds n values of one bucket, of which the smallest and the largest are
// known.
func (s *samples) addSpan(group uint32, x span, n int64) {
	if x.low == x.high || n == 2 {
		if s.heads[group] != sketched && s.counts[group]+n <= exactSamples && s.room.used+int(n) <= maxSamples {
			s.counts[group] += n
			for ; n > 1; n-- {
				s.keep(group, x.low)
			}
			s.keep(group, x.high)
			return
		}
	}
	s.sketch(group)
	s.counts[group] += n
	s.addBucket(group, x, n)
}

// keep adds a value to the list of a group.
func (s *samples) keep(group uint32, w int64) {
	s.kept++
	s.room.used++
	if i := s.free; i != 0 {
		s.free = s.next[i-1]
		s.words[i-1], s.next[i-1] = w, s.heads[group]
		s.heads[group] = i
		return
	}
	s.words, s.next = append(s.words, w), append(s.next, s.heads[group])
	s.heads[group] = uint32(len(s.words))
}

// sketch makes a group a sketch.
func (s *samples) sketch(group uint32) {
	h := s.heads[group]
	if h == sketched {
		return
	}
	s.heads[group] = sketched
	for h != 0 {
		w, next := s.words[h-1], s.next[h-1]
		s.addBucket(group, span{w, w}, 1)
		s.next[h-1], s.free = s.free, h
		s.kept--
		s.room.used--
		h = next
	}
}

// addBucket counts n values of one bucket.
func (s *samples) addBucket(group uint32, x span, n int64) {
	s.count(group, uint64(s.bucket(x.low)), x, n)
}

// count counts n values in a bucket.
func (s *samples) count(group uint32, bucket uint64, x span, n int64) {
	i := s.buckets.find(group, bucket)
	s.buckets.entries[i].count += n
	if i == len(s.spans) {
		s.spans = append(s.spans, x)
		return
	}
	at := &s.spans[i]
	if x.low < at.low {
		at.low = x.low
	}
	if x.high > at.high {
		at.high = x.high
	}
}

// gather stores the values of a group that is not a sketch in gathered.
func (s *samples) gather(group uint32) {
	s.gathered = s.gathered[:0]
	for h := s.heads[group]; h != 0; h = s.next[h-1] {
		s.gathered = append(s.gathered, s.words[h-1])
	}
}

// sorted returns the entries of a group that is a sketch, in the order of values.
func (s *samples) sorted(group uint32) []uint32 {
	s.entries = s.entries[:0]
	for i := s.buckets.heads[group]; i != 0; i = s.buckets.entries[i-1].next {
		s.entries = append(s.entries, i-1)
	}
	slices.SortFunc(s.entries, func(x, y uint32) int { return byWord(s.buckets.entries[x], s.buckets.entries[y]) })
	return s.entries
}

// rankOf returns the rank, from 1, of the q-quantile of n values: the smallest k with
// k/n >= q, as PERCENTILE_DISC of SQL. The product has a rounding error; the quotient,
// rounded once, decides.
func rankOf(q float64, n int64) int64 {
	all := float64(n)
	k := min(max(int64(math.Ceil(q*all)), 1), n)
	for k > 1 && float64(k-1)/all >= q {
		k--
	}
	for k < n && float64(k)/all < q {
		k++
	}
	return k
}

// at returns the word of the value with a rank, from 1; or the bucket that contains
// it, if the value is only known to be in that bucket.
func (s *samples) at(group uint32, rank int64) (w int64, in span, known bool) {
	if s.heads[group] != sketched {
		s.gather(group)
		return nth(s.gathered, int(rank-1)), span{}, true
	}
	for _, i := range s.sorted(group) {
		n, x := s.buckets.entries[i].count, s.spans[i]
		switch {
		case rank > n:
			rank -= n
			continue
		case rank == 1:
			return x.low, x, true
		case rank == n:
			return x.high, x, true
		}
		return x.low, x, x.low == x.high
	}
	return 0, span{}, false // not reached: rank is at most the number of values
}

// nth returns the value at index k of the sorted x. It reorders x (Hoare's FIND).
func nth(x []int64, k int) int64 {
	low, high := 0, len(x)-1
	for low < high {
		pivot := x[low+(high-low)/2]
		i, j := low, high
		for i <= j {
			for x[i] < pivot {
				i++
			}
			for x[j] > pivot {
				j--
			}
			if i <= j {
				x[i], x[j] = x[j], x[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case k <= j:
			high = j
		case k >= i:
			low = i
		default:
			return x[k]
		}
	}
	return x[k]
}

// The first byte of an encoded group is its version: the type of its values.
const (
	integerSamples  = 1
	doubleSamples   = 2
	unsignedSamples = 3
)

// version returns the first byte of encoded values of a type.
func version(t types.Type) byte {
	switch {
	case t.Physical() == types.PhysFloat:
		return doubleSamples
	case t.Unsigned():
		return unsignedSamples
	}
	return integerSamples
}

// typeOf returns the type of values whose encoding begins with v: any of those that have
// it. ok is false if there is none.
func typeOf(v byte) (t types.Type, ok bool) {
	switch v {
	case integerSamples:
		return types.Bigint, true
	case doubleSamples:
		return types.Double, true
	case unsignedSamples:
		return types.Ubigint, true
	}
	return types.Invalid, false
}

// encode appends the values of a group to to: the version and, ascending, each value or
// bucket. That is its smallest value as the difference to the largest one of the
// previous (signed for the first, to 0), twice the number of values, and if that is
// odd (plus 1) the difference from the smallest value to the largest one of the bucket.
func (s *samples) encode(to []byte, group uint32) []byte {
	to = append(to, version(s.typ))
	last, first := int64(0), true
	add := func(x span, n int64) {
		if first {
			to, first = binary.AppendVarint(to, x.low), false
		} else {
			to = binary.AppendUvarint(to, uint64(x.low)-uint64(last))
		}
		if last = x.high; x.low == x.high {
			to = binary.AppendUvarint(to, uint64(n)<<1)
			return
		}
		to = binary.AppendUvarint(to, uint64(n)<<1|1)
		to = binary.AppendUvarint(to, uint64(x.high)-uint64(x.low))
	}
	if s.heads[group] == sketched {
		for _, i := range s.sorted(group) {
			add(s.spans[i], s.buckets.entries[i].count)
		}
		return to
	}
	s.gather(group)
	slices.Sort(s.gathered)
	for x := s.gathered; len(x) > 0; {
		n := 1
		for n < len(x) && x[n] == x[0] {
			n++
		}
		add(span{x[0], x[0]}, int64(n))
		x = x[n:]
	}
	return to
}

// decode adds what encode wrote to a group. It returns false if b has another format.
// Samples of DOUBLE also read those of integers.
func (s *samples) decode(group uint32, b []byte) bool {
	return s.each(b, func(x span, n int64) { s.addSpan(group, x, n) })
}

// each calls add for each value or bucket that encode wrote. It returns false if b has
// another format.
func (s *samples) each(b []byte, add func(span, int64)) bool {
	if len(b) < 2 {
		return false
	}
	from, ok := typeOf(b[0])
	converts := s.floats && from != types.Double
	if !ok || !converts && b[0] != version(s.typ) {
		return false
	}
	last, k := binary.Varint(b[1:])
	if k <= 0 {
		return false
	}
	b = b[1+k:]
	for x := (span{low: last}); ; {
		twice, k := binary.Uvarint(b)
		if k <= 0 {
			return false
		}
		b, x.high = b[k:], x.low
		if twice&1 != 0 {
			width, k := binary.Uvarint(b)
			if k <= 0 {
				return false
			}
			b, x.high = b[k:], int64(uint64(x.low)+width)
			if x.high <= x.low {
				return false
			}
		}
		y := x
		if converts {
			y = span{wordOf(from.Float(from.Key(x.low))), wordOf(from.Float(from.Key(x.high)))}
		}
		if !s.valid(y, int64(twice>>1)) || twice&1 != 0 && twice>>1 < 2 {
			return false
		}
		add(y, int64(twice>>1))
		if len(b) == 0 {
			return true
		}
		step, k := binary.Uvarint(b)
		if k <= 0 {
			return false
		}
		b, x.low = b[k:], int64(uint64(x.high)+step)
		if x.low <= x.high {
			return false
		}
	}
}

// valid reports whether n values can be of one bucket and of these bounds.
func (s *samples) valid(x span, n int64) bool {
	return n > 0 && n < 1<<62 && (x.low == x.high || n > 1 && x.low < x.high && s.bucket(x.low) == s.bucket(x.high))
}

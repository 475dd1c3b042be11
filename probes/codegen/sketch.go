package codegen

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sort"
	"sync"

	"github.com/DataDog/sketches-go/ddsketch/mapping"
	"github.com/cilium/ebpf/asm"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// The bucket numbers are those of package agg (histogram.go and quantile.go), which merges these
// counts with its own; a test there compares them.

// bucketBits is the size of a bucket's number in its key word; the sketch's
// number is above it. A number at the limit means overflow.
const (
	bucketBits = 56
	farBucket  = 1 << (bucketBits - 2)
	underflow  = -1
	overflow   = math.MaxInt64
)

// buckets writes code that replaces the value in the first operand by its
// bucket's number.
type buckets interface {
	name() string
	number(w *writer, boundaries string, unsure label)
}

// bucketsOf returns the buckets of an aggregate; isSketch is false if it has
// none. nil: they cannot be computed, or the parameters are invalid.
func bucketsOf(f *plan.Agg, unsigned bool) (b buckets, isSketch bool) {
	switch f.Fn {
	case "quantile", "median", "sketch", plan.PercentileCont:
		return logarithms{unsigned}, true
	case "histogram":
		if len(f.Params) == 0 {
			return powers{unsigned}, true
		}
		if s, ok := stepsOf(f.Params); ok && (s.lo >= 0 || !unsigned) {
			s.unsigned = unsigned
			return s, true
		}
		return nil, true
	}
	return nil, false
}

// magnitude leaves the value's sign, 0 or -1, in the last operand and its
// magnitude in the first: |x| or, if exact is not set, ^x for a negative x.
func (w *writer) magnitude(exact bool) {
	x, sign := operands[0], operands[len(operands)-1]
	w.add(asm.Mov.Reg(sign, x), asm.ArSh.Imm(sign, 63), asm.Xor.Reg(x, sign))
	if exact {
		w.add(asm.Sub.Reg(x, sign))
	}
}

// log2 computes floor(log2 x) into the register n, without jumps: each jump
// would double the states that the verifier explores. It leaves 1 in x; 0, and
// 0 in n, if x was 0. x is at most 2^63.
func (w *writer) log2(x, n asm.Register) {
	w.add(asm.Mov.Imm(n, 0))
	for s := int32(5); s >= 0; s-- {
		// The difference is negative if x has bits above the lower half.
		w.constant(scratch, 1<<(1<<s)-1)
		w.add(asm.Sub.Reg(scratch, x), asm.RSh.Imm(scratch, 63), asm.LSh.Imm(scratch, s),
			asm.RSh.Reg(x, scratch), asm.Add.Reg(n, scratch))
	}
}

// powers are the buckets of HISTOGRAM(x): the number of bits.
type powers struct{ unsigned bool }

func (powers) name() string { return "powers" }

func (p powers) number(w *writer, _ string, _ label) {
	x, n, sign := operands[0], operands[1], operands[len(operands)-1]
	if p.unsigned {
		// The top bit is shifted out, and counted afterwards.
		top := operands[2]
		w.add(asm.Mov.Reg(top, x), asm.RSh.Imm(top, 63), asm.RSh.Reg(x, top))
		w.log2(x, n)
		w.add(asm.Add.Reg(x, n), asm.Add.Reg(x, top))
		return
	}
	w.magnitude(false)
	w.log2(x, n)
	w.add(asm.Add.Reg(x, n), asm.Xor.Reg(x, sign))
}

// steps are the buckets of HISTOGRAM(x, lo, hi, step).
type steps struct {
	lo, hi, step int64
	unsigned     bool
}

// stepsOf converts the parameters; false if they are invalid, not integers, or
// the buckets too many.
func stepsOf(params []types.Value) (s steps, ok bool) {
	if len(params) != 3 {
		return s, false
	}
	var n [3]int64
	for i, p := range params {
		f := p.F
		if p.Type.Physical() != types.PhysFloat {
			f = float64(p.I) // like the engine
		}
		if f != math.Trunc(f) || math.Abs(f) >= 1<<63 {
			return s, false
		}
		n[i] = int64(f)
	}
	s = steps{lo: n[0], hi: n[1], step: n[2]}
	return s, s.step > 0 && s.lo < s.hi && (uint64(s.hi)-uint64(s.lo))/uint64(s.step) < 1<<53
}

func (s steps) name() string { return fmt.Sprint("steps ", s.lo, s.hi, s.step) }

func (s steps) number(w *writer, _ string, _ label) {
	x := operands[0]
	below, above, end := w.newLabel(), w.newLabel(), w.newLabel()
	less, notLess := asm.JSLT, asm.JSGE
	if s.unsigned {
		less, notLess = asm.JLT, asm.JGE
	}
	w.compare(less, x, s.lo, below)
	w.compare(notLess, x, s.hi, above)
	w.constant(scratch, s.lo)
	w.add(asm.Sub.Reg(x, scratch))
	w.constant(scratch, s.step)
	w.add(asm.Div.Reg(x, scratch))
	w.goTo(end)
	w.place(below)
	w.constant(x, underflow)
	w.goTo(end)
	w.place(above)
	w.constant(x, farBucket)
	w.place(end)
}

// logarithms are the buckets of QUANTILE and MEDIAN: those of DDSketch, with
// the accuracy and the bias of package operators. The kernel has no logarithm,
// so the bucket of a magnitude is looked up in a table with a cell for each
// number up to 127 and, from there on, for each 64th part of an octave. A cell
// is narrower than a bucket, so there is at most one boundary in it.
type logarithms struct{ unsigned bool }

const (
	sketchAccuracy = 0.01
	bucketBias     = 1 << 20

	cellBits  = 6 // bits of a number, after its first one, that select the cell
	cells     = (64-1-cellBits)<<cellBits + 2<<cellBits
	cellBytes = 16
)

// Boundaries returns the cells, for a map with one entry of this size: each is
// two words, a magnitude, and the number of the bucket below it; the next
// bucket begins at the magnitude.
var Boundaries = sync.OnceValues(func() ([]uint64, error) {
	m, err := mapping.NewLogarithmicMapping(sketchAccuracy)
	if err != nil {
		return nil, err
	}
	bucket := func(u uint64) uint64 {
		if u == 0 {
			return 0
		}
		return uint64(m.Index(float64(u)) + bucketBias)
	}
	table := make([]uint64, 0, 2*cells)
	for i := range uint64(cells) {
		first, last := cell(i)
		from, to := bucket(first), bucket(last)
		boundary := uint64(math.MaxUint64)
		switch {
		case to == from+1:
			boundary = first + uint64(sort.Search(int(last-first), func(d int) bool { return bucket(first+uint64(d)) == to }))
		case to != from:
			return nil, fmt.Errorf("a cell from %d to %d has buckets from %d to %d", first, last, from, to)
		}
		table = append(table, boundary, from)
	}
	return table, nil
})

// cell returns the range of magnitudes of cell i.
func cell(i uint64) (first, last uint64) {
	if i < 2<<cellBits {
		return i, i
	}
	shift := i>>cellBits - 1
	first = (i&(1<<cellBits-1) + 1<<cellBits) << shift
	return first, first + 1<<shift - 1
}

// BucketOf returns the number of x's bucket as the kernel finds it, for tests.
func BucketOf(table []uint64, x int64) int64 {
	sign := x >> 63
	return int64(magnitudeBucket(table, uint64(x^sign-sign))) ^ sign - sign
}

func magnitudeBucket(table []uint64, u uint64) uint64 {
	shift := max(bits.Len64(u), cellBits+1) - (cellBits + 1)
	i := uint64(shift)<<cellBits + u>>shift
	b := table[2*i+1]
	if u >= table[2*i] {
		b++
	}
	return b
}

func (logarithms) name() string { return "logarithms" }

func (l logarithms) number(w *writer, boundaries string, unsure label) {
	u, t, n, at, sign := operands[0], operands[1], operands[2], operands[3], operands[len(operands)-1]
	small, found := w.newLabel(), w.newLabel()
	below := int32(0) // what log2 was less than that of u
	if l.unsigned {
		w.add(asm.Mov.Imm(sign, 0))
	} else {
		w.magnitude(true)
	}
	w.add(asm.Mov.Reg(at, u))
	w.jump(asm.JLT.Imm(u, 2<<cellBits, ""), small)
	w.add(asm.Mov.Reg(t, u))
	if l.unsigned { // u may be too large for log2
		w.add(asm.RSh.Imm(t, 1))
		below = 1
	}
	w.log2(t, n)
	w.add(asm.Sub.Imm(n, cellBits-below), asm.RSh.Reg(at, n), asm.LSh.Imm(n, cellBits), asm.Add.Reg(at, n))
	w.place(small)
	w.jump(asm.JGE.Imm(at, cells, ""), unsure) // never taken, for the verifier
	w.add(asm.LSh.Imm(at, 4), asm.LoadMapValue(t, 0, 0).WithReference(boundaries), asm.Add.Reg(t, at),
		asm.LoadMem(scratch, t, 0, asm.DWord), asm.LoadMem(t, t, 8, asm.DWord))
	w.jump(asm.JLT.Reg(u, scratch, ""), found)
	w.add(asm.Add.Imm(t, 1))
	w.place(found)
	w.add(asm.Mov.Reg(u, t), asm.Xor.Reg(u, sign), asm.Sub.Reg(u, sign))
}

// sketch adds an aggregate with buckets.
func (c *aggregator) sketch(f *plan.Agg, b buckets, n *number, k *class) bool {
	if b == nil {
		return false
	}
	name := b.name() + " " + f.Args[0].String() + " " + k.filter
	if i := slices.IndexFunc(c.lists, func(s sketch) bool { return s.name == name }); i >= 0 {
		c.out.Aggs = append(c.out.Aggs, Agg{Sketch: c.lists[i].index})
		return true
	}
	index := len(c.lists)
	if index == MaxSketches {
		return false
	}
	numbers, keeps := b.(logarithms)
	c.lists = append(c.lists, sketch{name, index, keeps})
	c.out.Aggs = append(c.out.Aggs, Agg{Sketch: index})
	w := c.derive
	n.load(w, operands, c.unsure)
	if keeps {
		// Values are kept as words that are in order as signed numbers.
		if numbers.unsigned {
			w.constant(scratch, math.MinInt64)
			w.add(asm.Xor.Reg(operands[0], scratch))
		}
		c.store(sampleAt+index, operands[0])
		if numbers.unsigned {
			w.constant(scratch, math.MinInt64)
			w.add(asm.Xor.Reg(operands[0], scratch))
		}
	}
	b.number(w, c.boundaries, c.unsure)
	// The sketch's number is in the bits above the bucket.
	w.add(asm.LSh.Imm(operands[0], 64-bucketBits), asm.RSh.Imm(operands[0], 64-bucketBits))
	w.constant(scratch, int64(index)<<bucketBits)
	w.add(asm.Or.Reg(operands[0], scratch))
	if k.filter != "" {
		passed := w.newLabel()
		w.add(asm.LoadMem(scratch2, asm.RFP, wordsAt, asm.DWord), asm.LoadMem(scratch2, scratch2, int16(8*k.flag), asm.DWord))
		w.jump(asm.JNE.Imm(scratch2, 0, ""), passed)
		w.add(asm.Mov.Imm(operands[0], noBucket))
		w.place(passed)
	}
	c.store(bucketAt+index, operands[0])
	return true
}

// DecodeBucket decodes the key word that identifies a bucket.
func DecodeBucket(word uint64) (sketch int, bucket int64) {
	bucket = int64(word<<(64-bucketBits)) >> (64 - bucketBits)
	if bucket == farBucket {
		bucket = overflow
	}
	return int(word >> bucketBits), bucket
}

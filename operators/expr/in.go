package expr

import (
	"math"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// inNode is X IN (constants).
type inNode struct {
	x        node
	kernel   inKernel
	withNull bool // the list has a NULL: no match yields NULL
	out      output
	chosen   []uint16
}

// inKernel appends to dst the rows whose value is in the list (or, negated, is not). It
// ignores the NULL bitmap.
type inKernel func(x *batch.Column, negate bool, r rows, dst []uint16) []uint16

func (c *compiler) inList(e *plan.In) (node, error) {
	x, err := c.expr(e.X)
	if err != nil {
		return nil, err
	}
	n := &inNode{x: x, out: newOutput(types.Boolean)}
	var list []types.Value
	for i := range e.List {
		v := e.List[i].V
		if v.IsNull {
			n.withNull = true
			continue
		}
		if v.Type != e.X.Type() {
			return nil, refuse(&e.List[i], "%s is %s and cannot be in a list for %s, which is %s", &e.List[i], v.Type, e.X, e.X.Type())
		}
		list = append(list, v)
	}
	switch e.X.Type().Physical() {
	case types.PhysInt:
		n.kernel = inInts(list)
	case types.PhysFloat:
		n.kernel = inFloats(list)
	case types.PhysCode:
		n.kernel = inTexts(list)
	case types.PhysBool:
		n.kernel = inBools(list)
	case types.PhysNone: // NULL IN (...)
		return newConst(types.NullOf(types.Boolean)), nil
	default:
		return nil, refuse(e.X, "values of type %s cannot be compared", e.X.Type())
	}
	return n, nil
}

func (n *inNode) choose(f *frame, r rows, want bool, dst []uint16) ([]uint16, error) {
	x, err := n.x.eval(f, r)
	if err != nil {
		return nil, err
	}
	if n.withNull && !want {
		return dst, nil
	}
	from := len(dst)
	return dropNulls(n.kernel(x, !want, r, dst), from, x.Nulls), nil
}

func (n *inNode) eval(f *frame, r rows) (*batch.Column, error) {
	x, err := n.x.eval(f, r)
	if err != nil {
		return nil, err
	}
	n.chosen = n.kernel(x, false, r, n.chosen[:0])
	out := n.out.scatter(r, n.chosen, x)
	if n.withNull {
		for k := range r.len() {
			if i := r.at(k); !out.Bool[i] {
				n.out.setNull(i)
			}
		}
	}
	return out, nil
}

func inInts(list []types.Value) inKernel {
	ints := make([]int64, len(list))
	for i, v := range list {
		ints[i] = v.I
	}
	set := newIntSet(ints)
	return func(x *batch.Column, negate bool, r rows, dst []uint16) []uint16 {
		return set.choose(x.Int, negate, r, dst)
	}
}

// intSet is a set of integers, hashed by multiplication into a table at most
// half full, with linear probing.
type intSet struct {
	slots []int64
	used  []bool
	shift uint
}

func newIntSet(ints []int64) *intSet {
	bits := uint(4)
	for 1<<bits < 2*len(ints) {
		bits++
	}
	s := &intSet{slots: make([]int64, 1<<bits), used: make([]bool, 1<<bits), shift: 64 - bits}
	for _, v := range ints {
		h := s.hash(v)
		for s.used[h] && s.slots[h] != v {
			h = (h + 1) & (len(s.slots) - 1)
		}
		s.slots[h], s.used[h] = v, true
	}
	return s
}

// hash is Fibonacci hashing: the top bits of a product with 2^64/φ.
func (s *intSet) hash(v int64) int { return int(uint64(v) * 0x9E3779B97F4A7C15 >> s.shift) }

func (s *intSet) has(v int64) bool {
	for h := s.hash(v); s.used[h]; h = (h + 1) & (len(s.slots) - 1) {
		if s.slots[h] == v {
			return true
		}
	}
	return false
}

func (s *intSet) choose(x []int64, negate bool, r rows, dst []uint16) []uint16 {
	k := len(dst)
	dst = room(dst, r.len())
	for j := range r.len() {
		i := r.at(j)
		dst[k] = uint16(i)
		if s.has(x[i]) != negate {
			k++
		}
	}
	return dst[:k]
}

// inFloats looks up floats by their bits.
func inFloats(list []types.Value) inKernel {
	ints := make([]int64, len(list))
	for i, v := range list {
		ints[i] = floatKey(v.F)
	}
	set := newIntSet(ints)
	return func(x *batch.Column, negate bool, r rows, dst []uint16) []uint16 {
		for k := range r.len() {
			if i := r.at(k); set.has(floatKey(x.Float[i])) != negate {
				dst = append(dst, uint16(i))
			}
		}
		return dst
	}
}

// floatKey returns equal keys for equal floats: one NaN, one zero.
func floatKey(f float64) int64 {
	switch {
	case f != f:
		f = math.NaN()
	case f == 0:
		f = 0
	}
	return int64(math.Float64bits(f))
}

func inTexts(list []types.Value) inKernel {
	set := make(map[string]bool, len(list))
	for _, v := range list {
		set[v.S] = true
	}
	return func(x *batch.Column, negate bool, r rows, dst []uint16) []uint16 {
		for k := range r.len() {
			if i := r.at(k); set[text(x, i)] != negate {
				dst = append(dst, uint16(i))
			}
		}
		return dst
	}
}

func inBools(list []types.Value) inKernel {
	var in [2]bool
	for _, v := range list {
		in[v.I] = true
	}
	return func(x *batch.Column, negate bool, r rows, dst []uint16) []uint16 {
		for k := range r.len() {
			if i := r.at(k); in[boolInt(x.Bool[i])] != negate {
				dst = append(dst, uint16(i))
			}
		}
		return dst
	}
}

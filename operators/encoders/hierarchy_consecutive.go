package encoders

import (
	"fmt"
)

// HierarchyEncoder measures how often successive classes lie in one hierarchy:
// one of them includes the other (Hwang, "hierarchy consecutive"). Its symbols
// are names of classes; those that the hierarchy does not know stand alone.
type HierarchyEncoder struct {
	Intake
	hierarchy *Hierarchy
	classes   []Class // by symbol
	last      Class   // everything: there was none
	found     Loop    // of period 1
}

// NewHierarchyEncoder returns an encoder for a sequence over a of classes of h.
// Classes may be added to h between calls of Append.
func NewHierarchyEncoder(a *Alphabet, h *Hierarchy, l Limits) *HierarchyEncoder {
	return &HierarchyEncoder{Intake: Intake{Alphabet: a, Limits: l}, hierarchy: h}
}

// Hierarchy is what the encoder knows of its classes.
func (e *HierarchyEncoder) Hierarchy() *Hierarchy { return e.hierarchy }

// Append implements [Encoder]; it makes no use of times.
func (e *HierarchyEncoder) Append(symbols []Symbol, _ []int64) {
	e.Consume(symbols, nil, e.encode, e.Bytes)
}

func (e *HierarchyEncoder) encode(symbols []Symbol, _ []int64) {
	for _, s := range symbols {
		for int(s) >= len(e.classes) {
			e.classes = append(e.classes, everything)
		}
		c := e.classes[s]
		if c == everything {
			c = e.hierarchy.Class(e.Alphabet.List[s])
			e.classes[s] = c
		}
		f := &e.found
		if e.last != everything && (c == e.last || e.hierarchy.Related(c, e.last)) {
			f.Hits++
			f.Covered += f.Symbols + 1 - max(f.Symbols-1, f.end)
			f.end = f.Symbols + 1
		}
		f.Symbols++
		e.last = c
	}
}

// Bytes implements [Encoder].
func (e *HierarchyEncoder) Bytes() int64 { return 4 * int64(cap(e.classes)) }

// Encode implements [Encoder]: it gives a [*HierarchyConsecutive].
func (e *HierarchyEncoder) Encode() Encoding {
	f := e.found
	f.Period, f.Tried = 1, max(0, f.Symbols-1)
	return &HierarchyConsecutive{Loops{Source: e.Source(), loops: []Loop{f}}}
}

// HierarchyConsecutive is how much of one or more sequences stays within a
// hierarchy.
type HierarchyConsecutive struct{ Loops }

// Merge implements [Mergeable].
func (c *HierarchyConsecutive) Merge(others []Encoding) (Encoding, error) {
	loops := make([]Encoding, len(others))
	for i, e := range others {
		o, ok := e.(*HierarchyConsecutive)
		if !ok {
			return nil, ErrUnlike
		}
		loops[i] = &o.Loops
	}
	m, err := c.Loops.Merge(loops)
	if err != nil {
		return nil, err
	}
	return &HierarchyConsecutive{*m.(*Loops)}, nil
}

// String is the ratios, and of what.
func (c *HierarchyConsecutive) String() string {
	p := &c.loops[0]
	return fmt.Sprintf("hierarchy-consecutive: %.4g hit (%d of %d), %.4g covered (%d of %d)%s",
		p.HitRatio(), p.Hits, p.Tried, p.CoveredRatio(), p.Covered, p.Symbols, c.Remark())
}

// MarshalJSON implements [Encoding].
func (c *HierarchyConsecutive) MarshalJSON() ([]byte, error) {
	p := &c.loops[0]
	return Marshal(struct {
		Encoding string `json:"encoding"`
		SourceJSON
		Hits    int64   `json:"hits"`
		Tried   int64   `json:"tried"`
		Hit     float64 `json:"hit_ratio"`
		Covered int64   `json:"covered"`
		Cover   float64 `json:"covered_ratio"`
	}{"hierarchy_consecutive", c.JSON(), p.Hits, p.Tried, p.HitRatio(), p.Covered, p.CoveredRatio()})
}

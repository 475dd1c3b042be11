package encoders

import (
	"fmt"
)

// HierarchyEncoder measures how often successive classes lie in one hierarchy, that is, one
// includes the other (Hwang, "hierarchy consecutive"). Its symbols are class names; a class
// the hierarchy does not know is related only to itself.
type HierarchyEncoder struct {
	Intake
	hierarchy *Hierarchy
	classes   []Class // by symbol
	last      Class   // the last class seen; everything: none yet
	found     Loop    // of period 1
}

// NewHierarchyEncoder returns an encoder for a sequence over a of classes of h. Classes may
// be added to h between calls of Append.
func NewHierarchyEncoder(a *Alphabet, h *Hierarchy, l Limits) *HierarchyEncoder {
	return &HierarchyEncoder{Intake: Intake{Alphabet: a, Limits: l}, hierarchy: h}
}

// Hierarchy returns the hierarchy of the encoder's classes.
func (e *HierarchyEncoder) Hierarchy() *Hierarchy { return e.hierarchy }

// Append implements [Encoder]; it ignores times.
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

func (e *HierarchyEncoder) Bytes() int64 { return 4 * int64(cap(e.classes)) }

// Encode implements [Encoder]. It returns a [*HierarchyConsecutive].
func (e *HierarchyEncoder) Encode() Encoding {
	f := e.found
	f.Period, f.Tried = 1, max(0, f.Symbols-1)
	return &HierarchyConsecutive{Loops{Source: e.Source(), loops: []Loop{f}}}
}

// HierarchyConsecutive is the share of one or more sequences that stays within one
// hierarchy.
type HierarchyConsecutive struct{ Loops }

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

// String returns the ratios and the size of the source.
func (c *HierarchyConsecutive) String() string {
	p := &c.loops[0]
	return fmt.Sprintf("hierarchy-consecutive: %.4g hit (%d of %d), %.4g covered (%d of %d)%s",
		p.HitRatio(), p.Hits, p.Tried, p.CoveredRatio(), p.Covered, p.Symbols, c.Remark())
}

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

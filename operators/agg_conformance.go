package operators

import (
	"slices"
	"unsafe"

	"endoscope/operators/batch"
	"endoscope/operators/encoders"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// makeConformances makes the encoders of CONFORMS and ANOMALY.
func makeConformances(f *plan.Agg) encoderMaker {
	o := encoders.ConformanceOptions{Open: word(f, plan.TruncatedOption) == "on", Anywhere: word(f, "anywhere") == "on"}
	v, _ := f.Option(plan.ModelOption)
	m, ok := v.A.(*encoders.Model)
	return func(a *encoders.Alphabet) (encoders.Encoder, error) {
		if !ok {
			return nil, plan.Errorf(-1, -1, "%s has no model", f)
		}
		e, err := encoders.NewConformanceEncoder(a, m, o, encoders.Limits{})
		if err != nil {
			return nil, plan.Errorf(-1, -1, "%s: %v", f, err)
		}
		return e, nil
	}
}

// put makes row i of out what the aggregate gives of the encoding x: itself, or
// a number, whether it conforms, or what about it is anomalous.
func (e *encoding) put(out *batch.Column, i int, g *sequences, x encoders.Encoding) {
	switch e.f.T {
	case types.Double:
		putMeasure(out, i, x)
	case types.Boolean:
		out.Append(i, types.Bool(g.conforms(x)))
	case types.Varchar:
		if g.conforms(x) {
			out.Append(i, types.NullOf(types.Varchar))
		} else {
			out.Append(i, types.Str(x.String()))
		}
	default:
		out.Any = append(out.Any, x)
	}
}

// conforms reports whether x, what was found of g, says so, and notes that it
// was given.
func (g *sequences) conforms(x encoders.Encoding) bool {
	c, ok := x.(*encoders.Conformance)
	g.given, g.departed = true, ok && !c.Conforms()
	return !g.departed
}

// news implements newsTeller: a verdict changes once, when a sequence leaves
// the model.
func (e *encoding) news(group uint32) bool {
	g := &e.groups[group]
	if g.past != nil && !g.past.Conforms() && !g.departed {
		return true
	}
	for _, s := range g.order {
		c, ok := s.encoder.(*encoders.ConformanceEncoder)
		if !ok || c.Departed() && !g.departed {
			return true
		}
	}
	return !g.given
}

// died is told that s has ended. A sequence that is compared with a model need
// not be remembered then: any number may live and die.
func (e *encoding) died(g *sequences, s *sequence) {
	c, ok := s.encoder.(*encoders.ConformanceEncoder)
	if !ok || s == g.rest {
		return
	}
	c.Finish()
	verdict, _ := c.Encode().(*encoders.Conformance)
	parts := []encoders.Encoding{verdict}
	first := c.Departed() && (g.pastLeft == nil || s.compare(g.pastLeft) < 0)
	if g.past != nil {
		if parts = append(parts, g.past); !first {
			slices.Reverse(parts)
		}
	}
	merged, err := parts[0].(*encoders.Conformance).Merge(parts[1:])
	if err != nil {
		return // it stays where it is
	}
	if first {
		g.pastLeft = &sequence{start: s.start, origin: s.origin, number: s.number}
	}
	g.past, _ = merged.(*encoders.Conformance)
	last := g.order[len(g.order)-1]
	g.order[s.inGroup], last.inGroup = last, s.inGroup
	g.order = g.order[:len(g.order)-1]
	last = e.all[len(e.all)-1]
	e.all[s.inAll], last.inAll = last, s.inAll
	e.all = e.all[:len(e.all)-1]
	e.held -= s.encoder.Bytes() + int64(unsafe.Sizeof(*s))
}

package encode

import (
	"slices"
	"unsafe"

	"endoscope/operators/batch"
	"endoscope/operators/encoders"
	"endoscope/operators/encoders/structure"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// makeConformances returns the maker of the encoders of CONFORMS and ANOMALY.
func makeConformances(f *plan.Agg) encoderMaker {
	o := structure.ConformanceOptions{Open: word(f, plan.TruncatedOption) == "on", Anywhere: word(f, "anywhere") == "on"}
	v, _ := f.Option(plan.ModelOption)
	m, ok := v.A.(*structure.Model)
	return func(a *encoders.Alphabet) (encoders.Encoder, error) {
		if !ok {
			return nil, plan.Errorf(-1, -1, "%s has no model", f)
		}
		e, err := structure.NewConformanceEncoder(a, m, o, encoders.Limits{})
		if err != nil {
			return nil, plan.Errorf(-1, -1, "%s: %v", f, err)
		}
		return e, nil
	}
}

// put sets row i of out to the result of the aggregate for the encoding x: the
// encoding itself, a number, whether it conforms, or its anomaly.
func (e *Encoding) put(out *batch.Column, i int, g *sequences, x encoders.Encoding) {
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

// conforms returns the verdict in x, the encoding of g, and records that it was
// returned.
func (g *sequences) conforms(x encoders.Encoding) bool {
	c, ok := x.(*structure.Conformance)
	g.given, g.departed = true, ok && !c.Conforms()
	return !g.departed
}

// Changed implements changeReporter. A verdict changes at most once, when a
// sequence leaves the model.
func (e *Encoding) Changed(group uint32) bool {
	g := &e.groups[group]
	if g.past != nil && !g.past.Conforms() && !g.departed {
		return true
	}
	for _, s := range g.order {
		c, ok := s.encoder.(*structure.ConformanceEncoder)
		if !ok || c.Departed() && !g.departed {
			return true
		}
	}
	return !g.given
}

// died handles the end of s. A sequence that is compared with a model is dropped
// then, so that their number is unlimited.
func (e *Encoding) died(g *sequences, s *sequence) {
	c, ok := s.encoder.(*structure.ConformanceEncoder)
	if !ok || s == g.rest {
		return
	}
	c.Finish()
	verdict, _ := c.Encode().(*structure.Conformance)
	parts := []encoders.Encoding{verdict}
	first := c.Departed() && (g.pastLeft == nil || s.compare(g.pastLeft) < 0)
	if g.past != nil {
		if parts = append(parts, g.past); !first {
			slices.Reverse(parts)
		}
	}
	merged, err := parts[0].(*structure.Conformance).Merge(parts[1:])
	if err != nil {
		return // it stays where it is
	}
	if first {
		g.pastLeft = &sequence{start: s.start, origin: s.origin, number: s.number}
	}
	g.past, _ = merged.(*structure.Conformance)
	last := g.order[len(g.order)-1]
	g.order[s.inGroup], last.inGroup = last, s.inGroup
	g.order = g.order[:len(g.order)-1]
	last = e.all[len(e.all)-1]
	e.all[s.inAll], last.inAll = last, s.inAll
	e.all = e.all[:len(e.all)-1]
	e.held -= s.encoder.Bytes() + int64(unsafe.Sizeof(*s))
}

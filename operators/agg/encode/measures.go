package encode

import (
	"math"

	"endoscope/operators/batch"
	"endoscope/operators/encoders"
	"endoscope/operators/encoders/structure"
	"endoscope/planner/plan"
)

// defaultTail is the length of an automaton's tails that the paper found to be
// a good compromise.
const defaultTail = 3

func makeAutomata(f *plan.Agg) encoderMaker {
	o := structure.AutomatonOptions{K: int(option(f, "k", defaultTail)), NoLoops: word(f, "loops") == "off"}
	o.Rule, _ = structure.ParseMergeRule(word(f, "merge"))
	cut := word(f, "truncated") == "on"
	return func(a *encoders.Alphabet) (encoders.Encoder, error) {
		e, err := structure.NewAutomatonEncoder(a, o, encoders.Limits{})
		if err == nil && cut {
			e.Truncate()
		}
		return e, err
	}
}

func makeLocalities(f *plan.Agg) encoderMaker {
	w := int(option(f, "w", 0))
	return func(a *encoders.Alphabet) (encoders.Encoder, error) {
		return encoders.NewLocalityEncoder(a, w, encoders.Limits{})
	}
}

func makeLoops(f *plan.Agg) encoderMaker {
	n := int(option(f, "n", 1))
	return func(a *encoders.Alphabet) (encoders.Encoder, error) {
		return encoders.NewLoopEncoder(a, []int{n}, encoders.Limits{})
	}
}

func makeSuccessions(*plan.Agg) encoderMaker {
	return func(a *encoders.Alphabet) (encoders.Encoder, error) {
		return encoders.NewSuccessionEncoder(a, encoders.Limits{}), nil
	}
}

func makeInvocationGraphs(*plan.Agg) encoderMaker {
	return func(a *encoders.Alphabet) (encoders.Encoder, error) {
		return encoders.NewInvocationEncoder(a, encoders.Limits{}), nil
	}
}

func makeHierarchies(*plan.Agg) encoderMaker {
	h := encoders.NewHierarchy() // of the program: common to all sequences
	return func(a *encoders.Alphabet) (encoders.Encoder, error) {
		return encoders.NewHierarchyEncoder(a, h, encoders.Limits{}), nil
	}
}

// stepBytes is the approximate size of a class and its base in the hierarchy.
const stepBytes = 200

// learn adds the base classes in row r to the hierarchy.
func (e *Encoding) learn(c *batch.Column, r uint16) {
	if c.Nulls.Get(int(r)) {
		return
	}
	known := e.lineages.lookup(c)
	if known[c.Code[r]] != unknown {
		return
	}
	known[c.Code[r]] = encoders.Return
	for _, step := range plan.ParseLineage(c.Values[c.Code[r]]) {
		if e.held > e.budget {
			return // rows that are not encoded need no hierarchy
		}
		if err := e.hierarchy.Derive(e.hierarchy.Class(step[0]), e.hierarchy.Class(step[1])); err != nil && e.cycle == nil {
			e.cycle = err
		}
		e.held += stepBytes
	}
}

// measure is an encoding that is a number; NaN if there is none.
type measure interface{ Value() float64 }

// putMeasure sets row i of out, a column of DOUBLE, to the number of x.
func putMeasure(out *batch.Column, i int, x encoders.Encoding) {
	v := math.NaN()
	if m, ok := x.(measure); ok {
		v = m.Value()
	}
	if math.IsNaN(v) {
		out.Nulls.Set(i)
		v = 0
	}
	out.Float = append(out.Float, v)
}

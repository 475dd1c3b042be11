package plan

import (
	"slices"

	"endoscope/planner/types"
)

// StateCount is the column, a BIGINT, that every state has: the number of values
// folded in. If it is 0 the other columns are undefined, and the aggregate is
// unchanged. (The row's group exists all the same: its events may have had only
// NULLs, or failed the FILTER.)
const StateCount = "n"

// OpaqueState is the column of a state that only its aggregate reads. The first
// byte is the version of its format.
const OpaqueState = "state"

// StateFields returns the columns that hold the state of an aggregate in partial
// rows. States are deltas: each value is in exactly one. They can be merged in any
// order, except for those of rows (see below).
//
//	count, rate         n
//	sum, avg            lo, hi (the sum, 128 bits, two's complement), n
//	  of DOUBLE         w0 ... w3 (the exact sum, 256 bits, two's complement, in units
//	                    of 2^-128), n, rest (BYTES: what does not fit w, or NULL)
//	min, max            value (of the argument's type), n
//	first, last         time (event time, ns since the epoch; NULL: rows have none),
//	                    value (of the argument's type), n
//	stddev, variance    lo, hi (of the sum), n, sq0, sq1, sq2 (Σx², 192 bits,
//	                    unsigned, least significant word first)
//	  of DOUBLE         w0 ... w3, n, sq0 ... sq6 (Σx², in units of 2^-256), rest
//	quantile, median,   low, high, n, state: n values of one bucket of the DDSketch,
//	sketch              the smallest and the largest of them (as types.Type.Key); or, if
//	                    state (BYTES) is not NULL, all values of the group in the format
//	                    of SKETCH, low and high being undefined
//	histogram           bucket (as package operators numbers them), n: how many values
//	                    in that one bucket
//	all others          state (BYTES), n
//
// The opaque state of COUNT(DISTINCT x) and TOPK is a set of values, that of TRIE
// its tree. The state of aggregates that depend on the order of rows (encoders and
// aggregates of entities) is the rows themselves, compressed. States of one
// sequence or entity come from one site, in order. If inner => includes nested
// calls, the same holds for those of one thread, which are in one group.
//
// Columns without a type in the table are BIGINT. ok is false for unknown
// functions.
func StateFields(f *Agg) (fields []types.Field, ok bool) {
	if FindAgg(f.Fn) == nil {
		return nil, false
	}
	var arg types.Type
	if len(f.Args) > 0 {
		arg = f.Args[0].Type()
	}
	names := []string{OpaqueState, StateCount}
	if form, ok := stateForms[f.Fn]; ok && !f.Distinct {
		names = form.names
		if form.ofDouble != nil && arg.Physical() == types.PhysFloat {
			names = form.ofDouble
		}
	}
	for _, n := range names {
		t := types.Bigint
		switch n {
		case OpaqueState, "rest":
			t = types.Bytes
		case "value":
			t = arg
		}
		fields = append(fields, types.Field{Name: n, Type: t})
	}
	return fields, true
}

// KernelAggregates reports whether the kernel can fold an aggregate if it can
// compute the argument: true for aggregates over integers whose state consists of
// BIGINTs, or may consist of them (the samples of quantiles).
func KernelAggregates(f *Agg) bool {
	form, ok := stateForms[f.Fn]
	return ok && form.kernel && !f.Distinct &&
		!slices.ContainsFunc(f.Args, func(a Expr) bool { return a.Type().Physical() != types.PhysInt })
}

// stateForm describes the columns of a state.
type stateForm struct {
	names    []string
	ofDouble []string // if the argument is a DOUBLE; nil: as names
	kernel   bool     // the kernel can fold it over integers
}

var (
	countForm   = stateForm{names: []string{StateCount}, kernel: true}
	sumForm     = stateForm{names: []string{"lo", "hi", StateCount}, ofDouble: []string{"w0", "w1", "w2", "w3", StateCount, "rest"}, kernel: true}
	momentsForm = stateForm{names: []string{"lo", "hi", StateCount, "sq0", "sq1", "sq2"},
		ofDouble: []string{"w0", "w1", "w2", "w3", StateCount, "sq0", "sq1", "sq2", "sq3", "sq4", "sq5", "sq6", "rest"}, kernel: true}
	extremeForm = stateForm{names: []string{"value", StateCount}, kernel: true}
	timedForm   = stateForm{names: []string{"time", "value", StateCount}, kernel: true}
	sampleForm  = stateForm{names: []string{"low", "high", StateCount, OpaqueState}, kernel: true}
	bucketForm  = stateForm{names: []string{"bucket", StateCount}, kernel: true}
)

// stateForms are the states of more than one opaque column, by function.
var stateForms = map[string]stateForm{
	"count":    countForm,
	"rate":     countForm,
	"sum":      sumForm,
	"avg":      sumForm,
	"min":      extremeForm,
	"max":      extremeForm,
	"first":    timedForm,
	"last":     timedForm,
	"stddev":   momentsForm,
	"variance": momentsForm,
	"quantile": sampleForm,
	"median":   sampleForm,
	"sketch":   sampleForm,

	PercentileCont: sampleForm,
	"histogram":    bucketForm,
}

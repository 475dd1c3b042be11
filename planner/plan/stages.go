package plan

// Stages is how an aggregate over several places is computed: each place computes
// First, aggregates of the same argument; what they give is merged by Merge, one
// for each; the result follows from these.
type Stages struct {
	First []string
	Merge []string
	// Final is the result, where it is not the one merged value: m0, m1 ... stand
	// for the merged values.
	Final string
	// FinalDuration is Final where the argument is a DURATION, if it differs.
	FinalDuration string
	// Params are the constants that the last of Merge takes after the merged values
	// where the aggregate has none of its own: "0.5" of MEDIAN.
	Params string
	// Takes says that the aggregate's own constants are those of the last of Merge.
	Takes bool
}

// AggStages are the aggregates that have stages which are aggregates themselves.
// COUNT(DISTINCT x) has not: a value may be at two places.
//
// The rate of several places is the sum of theirs, and of a quantile its sketches add
// up; MAX is there besides to tell what type the values are of.
//
// A mean of durations is a whole number of ns, rounded half away from zero, as
// that of one place is.
var AggStages = map[string]Stages{
	"count": {First: []string{"count"}, Merge: []string{"sum"}, Final: "coalesce(m0, 0)"},
	"sum":   {First: []string{"sum"}, Merge: []string{"sum"}},
	"min":   {First: []string{"min"}, Merge: []string{"min"}},
	"max":   {First: []string{"max"}, Merge: []string{"max"}},
	"avg": {First: []string{"sum", "count"}, Merge: []string{"sum", "sum"}, Final: "m0::DOUBLE / m1",
		FinalDuration: "(m0 * 2 + CASE WHEN m0 < 0ns THEN m1 * -1ns ELSE m1 * 1ns END) / (m1 * 2)"},
	"rate":     {First: []string{"rate"}, Merge: []string{"sum"}},
	"quantile": {First: []string{"max", "sketch"}, Merge: []string{"max", "sketch_quantile"}, Final: "m1", FinalDuration: sketchDuration, Takes: true},
	"median":   {First: []string{"max", "sketch"}, Merge: []string{"max", "sketch_quantile"}, Final: "m1", FinalDuration: sketchDuration, Params: "0.5"},
}

// sketchDuration is a quantile of durations, rounded as QUANTILE rounds it.
const sketchDuration = "round(m1)::BIGINT * 1ns"

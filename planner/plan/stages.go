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
}

// AggStages are the aggregates that have stages which are aggregates themselves.
// COUNT(DISTINCT x) and SUM(DISTINCT x) have not: a value may be at two places.
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
}

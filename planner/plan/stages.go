package plan

// Stages is how an aggregate over several places is computed: each place computes
// First, aggregates of the same argument, and the result follows from what they give.
type Stages struct {
	First []string
	// Final is the result, an expression: {0}, {1} ... are the columns of First,
	// {params} the aggregate's constants, each after a comma, and {ahead} a DURATION, by
	// how much a place's clock is ahead of those of the others.
	Final string
	// FinalDuration is Final where the argument is a DURATION, if it differs.
	FinalDuration string
	// Shared says that First takes the aggregate's constants, too.
	Shared bool
}

// AggStages are the aggregates that have stages which are aggregates themselves.
// COUNT(DISTINCT x) has not: a value may be at two places. Nor have those of sequences:
// one is encoded at one place.
//
// The rate of several places is the sum of theirs. MAX and FIRST beside a state are
// there to tell of what type the values are.
//
// A mean of durations is a whole number of ns, rounded half away from zero, as
// that of one place is.
var AggStages = map[string]Stages{
	"count": {First: []string{"count"}, Final: "coalesce(sum({0}), 0)"},
	"sum":   {First: []string{"sum"}, Final: "sum({0})"},
	"min":   {First: []string{"min"}, Final: "min({0})"},
	"max":   {First: []string{"max"}, Final: "max({0})"},
	"avg": {First: []string{"sum", "count"}, Final: "sum({0})::DOUBLE / sum({1})",
		FinalDuration: "(sum({0}) * 2 + CASE WHEN sum({0}) < 0ns THEN sum({1}) * -1ns ELSE sum({1}) * 1ns END) / (sum({1}) * 2)"},
	"rate":      {First: []string{"rate"}, Final: "sum({0})"},
	"quantile":  {First: []string{"max", "sketch"}, Final: "sketch_quantile({1}{params})", FinalDuration: "round(sketch_quantile({1}{params}))::BIGINT * 1ns"},
	"median":    {First: []string{"max", "sketch"}, Final: "sketch_quantile({1}, 0.5)", FinalDuration: "round(sketch_quantile({1}, 0.5))::BIGINT * 1ns"},
	"stddev":    {First: []string{"max", "stddev_state"}, Final: "stddev_merge({0}, {1})"},
	"variance":  {First: []string{"max", "variance_state"}, Final: "variance_merge({0}, {1})"},
	"histogram": {First: []string{"max", "histogram_state"}, Final: "histogram_merge({0}, {1}{params})", Shared: true},
	"topk":      {First: []string{"first", "topk_state"}, Final: "topk_merge({0}, {1}{params})", Shared: true},
	"first":     {First: []string{"first", "first_time"}, Final: "first_by({0}, {1} - {ahead})"},
	"last":      {First: []string{"last", "last_time"}, Final: "last_by({0}, {1} - {ahead})"},
}

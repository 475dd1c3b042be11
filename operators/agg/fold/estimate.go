package fold

import "endoscope/planner/types"

// The interfaces of accumulators whose results can be estimated from states by place and
// replicate (package approx). All have integers as arguments.
type (
	// Moments is an accumulator of numbers: how many, their sum, and the sum of their
	// squares, as far as it has them.
	Moments interface {
		Moments(group uint32) (n, sum, squares float64)
	}
	// Extreme is an accumulator of the smallest or the largest value; ok is false if there
	// is none.
	Extreme interface {
		Best(group uint32) (v float64, ok bool)
	}
	// Distribution is an accumulator of values, or of numbers of similar values. It calls
	// visit with each.
	Distribution interface {
		Values(group uint32, visit func(v float64, n int64))
	}
	// Timed is an accumulator of the earliest or the latest value; ok is false if there is none.
	Timed interface {
		Accumulator
		When(group uint32) (t int64, ok bool)
	}
	// Buckets is an accumulator of a histogram. It calls visit with each bucket that is not
	// empty, and knows its borders.
	Buckets interface {
		Buckets(group uint32, visit func(bucket, n int64))
		Borders(bucket int64) (low, high types.Value)
	}
)

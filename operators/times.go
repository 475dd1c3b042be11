package operators

import (
	"math"
)

// Floor returns the greatest multiple of step that is not above t.
func Floor(t, step int64) int64 {
	r := t % step
	if r < 0 {
		r += step
	}
	return t - r
}

// NoTime is before every event time, EndOfTime after.
const (
	NoTime    = math.MinInt64
	EndOfTime = math.MaxInt64
)

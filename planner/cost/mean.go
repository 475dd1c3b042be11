package cost

import (
	"math"
	"time"
)

// Mean is an exponentially weighted mean of something that changes with time:
// what was seen a half-life ago counts half. The zero Mean has seen nothing.
type Mean struct {
	sum, weight float64 // weight in seconds
}

// halfLife is after how much time an observation counts half.
const halfLife = 5 * time.Second

// Observe adds that x was the mean over the last d. Into how many observations
// a time is cut makes no difference.
func (m *Mean) Observe(x float64, d time.Duration) {
	m.Pass(d)
	// The weights of the moments of d: ∫ 2^(-t/halfLife) dt.
	w := halfLife.Seconds() / math.Ln2 * (1 - math.Exp2(-d.Seconds()/halfLife.Seconds()))
	m.sum += x * w
	m.weight += w
}

// Pass lets d go by in which nothing could be seen.
func (m *Mean) Pass(d time.Duration) {
	keep := math.Exp2(-d.Seconds() / halfLife.Seconds())
	m.sum *= keep
	m.weight *= keep
}

// Value is the mean; 0 if nothing was seen.
func (m *Mean) Value() float64 {
	if m.weight == 0 {
		return 0
	}
	return m.sum / m.weight
}

// Confidence is how many seconds' worth of observation the mean rests on, as
// the half-life weighs them: it grows to 5 / ln 2 = 7.2, and falls while nothing
// is seen.
func (m *Mean) Confidence() float64 { return m.weight }

// Known reports whether anything was seen lately: in the last three quarters of a
// minute, if much was seen before.
func (m *Mean) Known() bool { return m.weight >= 0.01 }

package cost

import (
	"math"
	"time"
)

// Mean is an exponentially weighted mean of a quantity that changes with time: an
// observation one half-life old counts half. If observations leave the range of the earlier
// ones, on the same side and for some time, the quantity has changed and the earlier ones
// are dropped. The zero Mean has no observations.
type Mean struct {
	moments
	odd       moments       // of the last observations, while they are out of range
	strayed   time.Duration // how long they have been out of range
	above     bool          // on which side they are
	doubted   bool
	midChange bool // the last observation contained a change: the next replaces it
}

// moments are weighted sums; the weight is in seconds.
type moments struct{ weight, sum, squares float64 }

const (
	// halfLife is the age at which an observation counts half.
	halfLife = 5 * time.Second
	// span is the reach of the range from the mean, in standard deviations, and margin its
	// minimum, as a share of the mean: smaller changes affect no decision.
	span   = 2
	margin = 0.5
	// changeTime is how long observations must be out of range to show a change.
	changeTime = 1500 * time.Millisecond
	// jumpRatio is the ratio between a count and its expectation above which (or below
	// whose inverse) a single count shows a change, provided that it covers at least
	// jumpTime, that at least jumpWeight was observed before, and that it deviates by
	// jumpDeviations of both the observed and the Poisson deviation. As in a cumulative sum
	// (Page 1954), larger deviations are detected sooner.
	jumpRatio      = 4
	jumpDeviations = 6
	jumpTime       = 500 * time.Millisecond
	jumpWeight     = 2 // seconds
)

// Observe adds the observation that x was the mean over the last d, and reports whether it
// shows a change; after Doubt any observation does. Without a change, the result does not
// depend on how a time is divided into observations.
func (m *Mean) Observe(x float64, d time.Duration) (changed bool) {
	m.Pass(d)
	// The weights of the moments of d: ∫ 2^(-t/halfLife) dt.
	w := halfLife.Seconds() / math.Ln2 * (1 - math.Exp2(-d.Seconds()/halfLife.Seconds()))
	seen := moments{w, x * w, x * x * w}
	if m.doubted || m.midChange {
		changed = m.doubted && m.Strays(x)
		*m = Mean{moments: seen}
		return changed
	}
	above := x > m.before().mean()
	switch {
	case !m.Strays(x):
		m.odd, m.strayed = moments{}, 0
	case above != m.above:
		m.odd, m.strayed = seen, d
	default:
		m.odd.add(seen)
		m.strayed += d
	}
	m.above = above
	if m.strayed >= changeTime && m.strayed > d {
		*m = Mean{moments: m.odd}
		return true
	}
	m.add(seen)
	return false
}

// Count is Observe for n events in d, the mean being their rate per second. It reports a
// large change at once. If the change happened within d, the rate is not yet the new one,
// so the next observation replaces it.
func (m *Mean) Count(n float64, d time.Duration) (changed bool) {
	jumped := m.jumped(n, d)
	changed = m.Observe(n/d.Seconds(), d)
	if jumped && !changed {
		m.midChange, changed = true, true
	}
	return changed
}

// jumped reports whether n events in d alone show that their rate has changed.
func (m *Mean) jumped(n float64, d time.Duration) bool {
	b := m.before()
	if b.weight < jumpWeight || m.doubted || m.midChange || d < jumpTime {
		return false
	}
	expected := b.mean() * d.Seconds()
	chance := math.Sqrt(max(n, expected)) // Poisson
	return (n > jumpRatio*expected || jumpRatio*n < expected) &&
		math.Abs(n-expected) > jumpDeviations*max(chance, b.deviation()*d.Seconds())
}

// before returns the observations before they went out of range.
func (m *Mean) before() moments {
	b := m.moments
	b.add(moments{-m.odd.weight, -m.odd.sum, -m.odd.squares})
	return b
}

// Strays reports whether x is out of the range of the observations.
func (m *Mean) Strays(x float64) bool {
	b := m.before()
	if b.weight <= 0 {
		return false
	}
	mean := b.mean()
	return math.Abs(x-mean) > max(span*b.deviation(), margin*math.Abs(mean))
}

func (s moments) mean() float64 {
	if s.weight <= 0 {
		return 0
	}
	return s.sum / s.weight
}

// deviation returns the standard deviation.
func (s moments) deviation() float64 {
	if s.weight <= 0 {
		return 0
	}
	return math.Sqrt(max(0, s.squares/s.weight-s.mean()*s.mean()))
}

func (s *moments) add(t moments) {
	s.weight += t.weight
	s.sum += t.sum
	s.squares += t.squares
}

// Pass records a time d without observations.
func (m *Mean) Pass(d time.Duration) {
	keep := math.Exp2(-d.Seconds() / halfLife.Seconds())
	for _, s := range []*moments{&m.moments, &m.odd} {
		s.weight *= keep
		s.sum *= keep
		s.squares *= keep
	}
}

// Doubt marks the mean as possibly outdated. Its value remains until the next observation.
func (m *Mean) Doubt() { m.doubted = m.weight > 0 }

// Doubted reports whether there was no observation since Doubt.
func (m *Mean) Doubted() bool { return m.doubted }

// Value returns the mean, or 0 without observations.
func (m *Mean) Value() float64 { return m.mean() }

// Confidence returns the seconds of observation behind the mean, weighted by age. It grows
// to 5 / ln 2 = 7.2, and falls while nothing is observed.
func (m *Mean) Confidence() float64 { return m.weight }

// Known reports whether there are recent observations: within the last 45 seconds, if there
// were many before.
func (m *Mean) Known() bool { return m.weight >= 0.01 }

package cost

import (
	"math"
	"time"
)

// Mean is an exponentially weighted mean of something that changes with time:
// what was seen a half-life ago counts half. Where observations leave the range of
// those before, on the same side and for some time, something has changed, and
// what was before is forgotten. The zero Mean has seen nothing.
type Mean struct {
	moments
	odd     moments       // of the last observations, if they were out of range
	strayed time.Duration // for how long they were
	above   bool          // where they lay
	doubted bool
	amidst  bool // the last observation had a change in its course: the next replaces it
}

// moments are weighted sums; the weight is in seconds.
type moments struct{ weight, sum, squares float64 }

const (
	// halfLife is after how much time an observation counts half.
	halfLife = 5 * time.Second
	// span is how far from the mean the range reaches, in standard deviations,
	// and margin its least reach, as a share of the mean: what changes no more
	// than that decides nothing.
	span   = 2
	margin = 0.5
	// patent is for how long observations stray that are a change.
	patent = 1500 * time.Millisecond
	// glaring is how many times the mean a count is, or what part of it, that is a
	// change by itself, if it is not too short and so many standard deviations off, of
	// what was seen, of which there is enough, and of a count that chance makes: a
	// cumulative sum (Page 1954) is likewise the sooner over its threshold the farther
	// off observations are.
	glaring           = 4
	glaringDeviations = 6
	glaringTime       = 500 * time.Millisecond
	glaringWeight     = 2 // seconds
)

// Observe adds that x was the mean over the last d, and reports whether that shows
// a change: one observation does if there was a doubt. Without a change it makes no
// difference into how many observations a time is cut.
func (m *Mean) Observe(x float64, d time.Duration) (changed bool) {
	m.Pass(d)
	// The weights of the moments of d: ∫ 2^(-t/halfLife) dt.
	w := halfLife.Seconds() / math.Ln2 * (1 - math.Exp2(-d.Seconds()/halfLife.Seconds()))
	seen := moments{w, x * w, x * x * w}
	if m.doubted || m.amidst {
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
	if m.strayed >= patent && m.strayed > d {
		*m = Mean{moments: m.odd}
		return true
	}
	m.add(seen)
	return false
}

// Count is Observe of n events in d, the mean being their rate per second. It
// reports a large change at once; while that is in the course of d the rate is not
// yet that which will be: the next observation stands for itself.
func (m *Mean) Count(n float64, d time.Duration) (changed bool) {
	glares := m.glares(n, d)
	changed = m.Observe(n/d.Seconds(), d)
	if glares && !changed {
		m.amidst, changed = true, true
	}
	return changed
}

// glares reports whether n events in d show by themselves that their rate has changed.
func (m *Mean) glares(n float64, d time.Duration) bool {
	b := m.before()
	if b.weight < glaringWeight || m.doubted || m.amidst || d < glaringTime {
		return false
	}
	expected := b.mean() * d.Seconds()
	chance := math.Sqrt(max(n, expected)) // Poisson
	return (n > glaring*expected || glaring*n < expected) &&
		math.Abs(n-expected) > glaringDeviations*max(chance, b.deviation()*d.Seconds())
}

// before is what was seen before observations strayed.
func (m *Mean) before() moments {
	b := m.moments
	b.add(moments{-m.odd.weight, -m.odd.sum, -m.odd.squares})
	return b
}

// Strays reports whether x is out of the range of what was seen before.
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

// deviation is the standard deviation.
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

// Pass lets d go by in which nothing could be seen.
func (m *Mean) Pass(d time.Duration) {
	keep := math.Exp2(-d.Seconds() / halfLife.Seconds())
	for _, s := range []*moments{&m.moments, &m.odd} {
		s.weight *= keep
		s.sum *= keep
		s.squares *= keep
	}
}

// Doubt says that what was seen may hold no longer. The value stays until
// something is seen.
func (m *Mean) Doubt() { m.doubted = m.weight > 0 }

// Doubted reports whether nothing was seen since Doubt.
func (m *Mean) Doubted() bool { return m.doubted }

// Value is the mean; 0 if nothing was seen.
func (m *Mean) Value() float64 { return m.mean() }

// Confidence is how many seconds' worth of observation the mean rests on, as
// the half-life weighs them: it grows to 5 / ln 2 = 7.2, and falls while nothing
// is seen.
func (m *Mean) Confidence() float64 { return m.weight }

// Known reports whether anything was seen lately: in the last three quarters of a
// minute, if much was seen before.
func (m *Mean) Known() bool { return m.weight >= 0.01 }

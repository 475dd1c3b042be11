package estimate

import (
	"math"
	"math/rand/v2"
)

// hit is a call in a simulated program: when, and how long it took.
type hit struct{ at, took float64 }

// loads are programs that call a function rate times a second on average, for T seconds.
var loads = map[string]func(r *rand.Rand, T, rate float64) []hit{
	"steady": func(r *rand.Rand, T, rate float64) []hit {
		return calls(r, T, rate, func(float64) float64 { return rate })
	},
	"on and off": func(r *rand.Rand, T, rate float64) []hit {
		var edges []float64
		for t := 0.0; t < T; {
			t += 0.3 + r.Float64()*2.7
			edges = append(edges, t)
		}
		i := 0
		return calls(r, T, 2*rate, func(t float64) float64 {
			for i < len(edges) && t >= edges[i] {
				i++
			}
			return 2 * rate * float64(1-i%2)
		})
	},
	"drifting": func(r *rand.Rand, T, rate float64) []hit {
		return calls(r, T, 2*rate, func(t float64) float64 { return rate * (0.1 + 1.8*t/T) })
	},
	"each second": func(r *rand.Rand, T, rate float64) []hit {
		phase := r.Float64()
		return calls(r, T, 5*rate, func(t float64) float64 {
			if _, f := math.Modf(t + phase); f < 0.2 {
				return 5 * rate
			}
			return 0
		})
	},
	"in clusters of 20": func(r *rand.Rand, T, rate float64) (hits []hit) {
		for _, h := range calls(r, T, rate/20, func(float64) float64 { return rate / 20 }) {
			for k := range 20 {
				if at := h.at + float64(k)*1e-5; at < T {
					hits = append(hits, hit{at, h.took})
				}
			}
		}
		return hits
	},
}

// calls draws a Poisson process of changing rate; what a call takes has a long tail.
func calls(r *rand.Rand, T, most float64, rate func(float64) float64) (hits []hit) {
	for t := 0.0; ; {
		t += r.ExpFloat64() / most
		if t >= T {
			return hits
		}
		if r.Float64()*most < rate(t) {
			hits = append(hits, hit{t, math.Exp(r.NormFloat64())})
		}
	}
}

// seen is what slices show of a program.
type seen struct {
	exposure Exposure
	hits     [Replicates][]hit
}

// look takes one slice at a random moment of each period.
func look(r *rand.Rand, hits []hit, T, period, slice float64) (s seen) {
	s.exposure.Whole = T
	i := 0
	for j := range int(math.Round(T / period)) {
		from := (float64(j) + r.Float64()*(1-slice/period)) * period
		s.exposure.Add(j, slice)
		for ; i < len(hits) && hits[i].at < from+slice; i++ {
			if hits[i].at >= from {
				s.hits[j%Replicates] = append(s.hits[j%Replicates], hits[i])
			}
		}
	}
	return s
}

func (s *seen) counts() (n [Replicates]float64, found [Replicates]bool, all int) {
	for r, hs := range s.hits {
		n[r], found[r] = float64(len(hs)), len(hs) > 0
		all += len(hs)
	}
	return n, found, all
}

// below counts the hits that took at most d.
func (s *seen) below(d float64) (n [Replicates]float64) {
	for r, hs := range s.hits {
		for _, h := range hs {
			if h.took <= d {
				n[r]++
			}
		}
	}
	return n
}

package encoders

import (
	"encoding/json"
	"math"
	"math/big"
	"math/bits"
)

// Stats holds the statistics of an element of an encoding (a run, a rule, a node, an arc, a
// tuple of callers): the number of occurrences and the first two moments of their times.
// Sums are exact, so that they do not depend on the order of merging.
type Stats struct {
	Count int64 // occurrences
	Timed int64 // occurrences whose time is in Sum and SumSq
	Sum   int64 // Σt, ns
	SumSq Uint128
}

// NoTime is the time of an occurrence that was not timed.
const NoTime = math.MinInt64

// Add counts one occurrence that took t ns.
func (s *Stats) Add(t int64) {
	s.Count++
	if t == NoTime {
		return
	}
	s.Timed++
	s.Sum += t
	s.SumSq.addSquare(t)
}

// Merge adds the occurrences of o.
func (s *Stats) Merge(o *Stats) {
	s.Count += o.Count
	s.Timed += o.Timed
	s.Sum += o.Sum
	s.SumSq.add(o.SumSq)
}

// Mean returns the mean time in ns, or 0 if none was timed.
func (s *Stats) Mean() float64 {
	if s.Timed == 0 {
		return 0
	}
	return float64(s.Sum) / float64(s.Timed)
}

// Deviation returns the standard deviation (n-1) of the times in ns, or 0 if fewer than two
// were timed.
func (s *Stats) Deviation() float64 {
	if s.Timed < 2 {
		return 0
	}
	// (n·Σt² - (Σt)²) / (n·(n-1)). The numerator must be exact because it cancels.
	n := big.NewInt(s.Timed)
	sum := big.NewInt(s.Sum)
	x := new(big.Int).Mul(n, s.SumSq.big())
	x.Sub(x, sum.Mul(sum, sum))
	f, _ := new(big.Float).SetInt(x).Float64()
	return math.Sqrt(f / (float64(s.Timed) * float64(s.Timed-1)))
}

// MarshalJSON returns {"count": n, "timed": n, "sum_ns": Σt, "sumsq_ns2": Σt²}, without the
// times if nothing was timed.
func (s Stats) MarshalJSON() ([]byte, error) {
	if s.Timed == 0 {
		return json.Marshal(struct {
			Count int64 `json:"count"`
		}{s.Count})
	}
	return json.Marshal(struct {
		Count int64    `json:"count"`
		Timed int64    `json:"timed"`
		Sum   int64    `json:"sum_ns"`
		SumSq *big.Int `json:"sumsq_ns2"`
	}{s.Count, s.Timed, s.Sum, s.SumSq.big()})
}

// Uint128 is an unsigned 128-bit number, Hi·2^64 + Lo. It holds the sum of the squares of
// 10^18 times of one second each.
type Uint128 struct{ Hi, Lo uint64 }

func (u *Uint128) addSquare(t int64) {
	x := uint64(t)
	if t < 0 {
		x = -x
	}
	hi, lo := bits.Mul64(x, x)
	u.add(Uint128{hi, lo})
}

func (u *Uint128) add(v Uint128) {
	var carry uint64
	u.Lo, carry = bits.Add64(u.Lo, v.Lo, 0)
	u.Hi, _ = bits.Add64(u.Hi, v.Hi, carry)
}

func (u Uint128) big() *big.Int {
	x := new(big.Int).SetUint64(u.Hi)
	return x.Lsh(x, 64).Or(x, new(big.Int).SetUint64(u.Lo))
}

// String returns the number in decimal.
func (u Uint128) String() string { return u.big().String() }

// MergeStats adds from, indexed by symbol, to to; symbols translates the symbols of from.
func MergeStats(to []Stats, from []Stats, symbols []Symbol) []Stats {
	for s := range from {
		if from[s].Count == 0 {
			continue
		}
		for int(symbols[s]) >= len(to) {
			to = append(to, Stats{})
		}
		to[symbols[s]].Merge(&from[s])
	}
	return to
}

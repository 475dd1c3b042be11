package slicing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Stratum is functions that were observed in the same way, for EXPLAIN ANALYZE.
type Stratum struct {
	Functions []string
	Always    bool // all the time; else in slices
	Slices    int
	Length    time.Duration // of a slice
	Share     float64       // of the program's progress, that slices have seen
	Hits      uint64
	Spent     float64 // by these hits, ns
}

// mostListed bounds the strata, and mostNamed the functions of one, that are listed.
const mostListed, mostNamed = 20, 3

// Report describes strata, the dearest first. used is the processor time of the program, ns.
func Report(list []Stratum, used float64) (lines []string) {
	list = slices.DeleteFunc(slices.Clone(list), func(s Stratum) bool { return len(s.Functions) == 0 })
	slices.SortStableFunc(list, func(a, b Stratum) int {
		if a.Always != b.Always {
			if a.Always {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.Spent, a.Spent)
	})
	for i, s := range list {
		if i == mostListed {
			rest := Stratum{Functions: nil}
			for _, s := range list[i:] {
				rest.Slices, rest.Hits, rest.Spent = rest.Slices+s.Slices, rest.Hits+s.Hits, rest.Spent+s.Spent
				rest.Functions = append(rest.Functions, s.Functions...)
			}
			return append(lines, fmt.Sprintf("in slices, %d more groups of %s: %d slices, %s", len(list)-i, functions(len(rest.Functions)), rest.Slices, rest.cost(used)))
		}
		if s.Always {
			lines = append(lines, fmt.Sprintf("all the time, %s: exact, %s", functions(len(s.Functions)), s.cost(used)))
			continue
		}
		lines = append(lines, fmt.Sprintf("in slices of %s, %s: %d slices, which saw %.2g %% of the program's progress, %s", s.Length.Round(100*time.Microsecond), s.names(), s.Slices, 100*s.Share, s.cost(used)))
	}
	return lines
}

// cost describes what hits have cost.
func (s *Stratum) cost(used float64) string {
	if s.Hits == 0 {
		return "no calls seen"
	}
	return fmt.Sprintf("%d calls seen at %s each, %.2g %% of its CPU time", s.Hits, time.Duration(s.Spent/float64(s.Hits)).Round(10), 100*s.Spent/max(used, 1))
}

func (s *Stratum) names() string {
	names := strings.Join(s.Functions[:min(mostNamed, len(s.Functions))], ", ")
	if more := len(s.Functions) - mostNamed; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return names
}

func functions(n int) string {
	if n == 1 {
		return "1 function"
	}
	return fmt.Sprintf("%d functions", n)
}

// How a budget is used, for Outlook.
var (
	// Divided: some functions are observed all the time, and the others in slices.
	Divided = []string{
		"all the time, exact: the functions that are called least, for at most half of the budget; they are found when the query begins",
		fmt.Sprintf("in slices of %s to %s: the others, in groups that slow the program by at most %.2g %%, or one by one", shortest, longest, 100*MostDilation),
	}
	// Together: the calls are a sequence.
	Together = []string{fmt.Sprintf("in slices of %s to %s, with a GAP before each: all functions together", shortest, longest)}
	// Limited: the calls are recorded all the time.
	Limited = []string{"the functions that are called least, for at most half of the budget; the others are left out"}
)

// Outlook describes, before functions are observed, how a budget will be used. prices are those
// of a call of each function, in ns.
func Outlook(share, floor float64, how []string, prices []uint64) (lines []string) {
	lines = append(lines, fmt.Sprintf("budget %.4g %% of the CPU time that the program uses, at least %s each second", 100*share, time.Duration(share*floor*float64(time.Second)).Round(10*time.Microsecond)))
	lines = append(lines, how...)
	if len(prices) == 0 {
		return lines
	}
	sorted := slices.Clone(prices)
	slices.Sort(sorted)
	for i := 0; i < len(sorted); {
		n := 0 // of similar price
		for n < len(sorted)-i && sorted[i+n] <= 3*sorted[i] {
			n++
		}
		low, high := time.Duration(sorted[i]).Round(10), time.Duration(sorted[i+n-1]).Round(10)
		price := low.String()
		if high > low {
			price += " to " + high.String()
		}
		lines = append(lines, fmt.Sprintf("price of a call: %s for %s", price, functions(n)))
		i += n
	}
	return lines
}

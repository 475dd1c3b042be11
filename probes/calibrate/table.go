package calibrate

import (
	"math"

	"endoscope/probes/codesite"
)

// Table has the cost of a call to the program that makes it, in ns beyond the
// call itself: by kind of observation, which the caller names, and by method
// (codesite.Emulated, Nop, Stepped).
type Table map[string]map[string]float64

// Methods are the methods for which every kind of a table has a price.
var Methods = []string{codesite.Emulated, codesite.Nop, codesite.Stepped}

// maxPrice is the largest plausible price, in ns: a probe that takes a
// millisecond was interrupted.
const maxPrice = 1e6

// disturbed reports whether an instruction that does nothing has cost more than the others that are
// emulated, which have effects. It was seen ten times as dear, on a busy machine on which the kernel
// replaces such instructions by calls (Linux 6.18).
func (t Table) disturbed() bool {
	const tolerance = 1.5
	for _, prices := range t {
		if prices[codesite.Nop] > tolerance*prices[codesite.Emulated] {
			return true
		}
	}
	return false
}

// complete reports whether t has a plausible price for each method of each of
// the kinds.
func (t Table) complete(kinds []string) bool {
	for _, kind := range kinds {
		for _, m := range Methods {
			if p := t[kind][m]; !(p > 0 && p < maxPrice) || math.IsNaN(p) {
				return false
			}
		}
	}
	return true
}

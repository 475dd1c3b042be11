package calibrate

import (
	"math"

	"endoscope/probes/codesite"
)

// Table says what a call costs the program that makes it, in ns beyond the call
// itself: by kind of observation, whose names are the caller's, and by method
// (codesite.Emulated, Nop, Stepped).
type Table map[string]map[string]float64

// Methods are those that every kind of a table has.
var Methods = []string{codesite.Emulated, codesite.Nop, codesite.Stepped}

// maxPrice bounds what can be a price, in ns: a probe that takes a millisecond
// was not measured but interrupted.
const maxPrice = 1e6

// complete reports whether t has a price that can be one for each method of
// each of the kinds.
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

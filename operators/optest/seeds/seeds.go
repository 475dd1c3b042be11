// Package seeds fixes the random seed of the property tests (pgregory.net/rapid) of the
// package whose tests import it, so that every run draws the same cases and a test fails
// only because of a change. New cases are drawn with RAPID_SEED=0 in the environment, or
// with -rapid.seed=0, which is rapid's notation for a random seed; -rapid.checks sets their
// number. It is for tests only, and knows nothing of the project.
package seeds

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// fixed is the default seed.
const fixed = 1

const (
	variable = "RAPID_SEED" // rapid's own
	option   = "rapid.seed"
)

func init() {
	if _, named := os.LookupEnv(variable); named {
		return // rapid has read it
	}
	set(fixed) // the command line is parsed later and overrides it
}

// Check checks a property on n times as many cases as [rapid.Check] draws, each time with a
// different seed.
func Check(t *testing.T, n int, property func(*rapid.T)) {
	t.Helper()
	first := current()
	defer set(first)
	for i := range n {
		if first != 0 {
			set(first + uint64(i))
		}
		rapid.Check(t, property)
	}
}

// current returns rapid's seed; 0: a random one at each use.
func current() uint64 { return flag.Lookup(option).Value.(flag.Getter).Get().(uint64) }

func set(seed uint64) {
	if err := flag.Set(option, strconv.FormatUint(seed, 10)); err != nil {
		panic(err) // rapid has no such flag
	}
}

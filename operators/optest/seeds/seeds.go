// Package seeds has the property tests (pgregory.net/rapid) of the package whose
// tests import it draw the same cases in every run, so that what a change has not
// broken does not fail. New cases are drawn with RAPID_SEED=0 in the environment,
// or with -rapid.seed=0: rapid's way of saying "a random seed"; -rapid.checks says
// how many. It is for tests only, and knows nothing of the project.
package seeds

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// fixed is the seed where nobody names one.
const fixed = 1

const (
	variable = "RAPID_SEED" // rapid's own
	option   = "rapid.seed"
)

func init() {
	if _, named := os.LookupEnv(variable); named {
		return // rapid has read it
	}
	set(fixed) // what is said on the command line comes later and holds
}

// Check holds a property over n times as many cases as [rapid.Check] draws: each
// time with a seed of its own.
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

// current is the seed that rapid goes by, 0: a random one at each use.
func current() uint64 { return flag.Lookup(option).Value.(flag.Getter).Get().(uint64) }

func set(seed uint64) {
	if err := flag.Set(option, strconv.FormatUint(seed, 10)); err != nil {
		panic(err) // rapid has no such flag
	}
}

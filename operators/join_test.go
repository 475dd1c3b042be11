package operators_test

import (
	"flag"
	"math/rand/v2"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/optest"
)

// joinsAgree draws a join and an input, out of order and late, and holds the
// engine to the oracle, which compares every row with every other.
func joinsAgree(t *rapid.T) {
	root, in := optest.RandomJoin(t), optest.RandomInput(t)
	e := fast{}
	if rapid.Bool().Draw(t, "sparse") {
		e.sparse = rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	}
	if diff := optest.Check(e, root, in); diff != "" {
		t.Fatalf("%s\n%s", diff, caseText(root, in))
	}
}

// TestJoinsAgreeWithOracle is the short form of FuzzJoin: the same cases in
// every run.
func TestJoinsAgreeWithOracle(t *testing.T) {
	seed := flag.Lookup("rapid.seed")
	defer seed.Value.Set(seed.Value.String())
	for i := range 20 {
		seed.Value.Set(strconv.Itoa(i + 1))
		rapid.Check(t, joinsAgree)
	}
}

// FuzzJoin looks for joins and inputs on which the engine and the oracle differ.
func FuzzJoin(f *testing.F) { f.Fuzz(rapid.MakeFuzz(joinsAgree)) }

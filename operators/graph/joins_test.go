package graph_test

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/optest"
	"endoscope/operators/optest/seeds"
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

// TestJoinsAgreeWithOracle is the short form of FuzzJoin.
func TestJoinsAgreeWithOracle(t *testing.T) {
	seeds.Check(t, 20, joinsAgree)
}

// FuzzJoin looks for joins and inputs on which the engine and the oracle differ.
func FuzzJoin(f *testing.F) { f.Fuzz(rapid.MakeFuzz(joinsAgree)) }

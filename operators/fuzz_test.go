package operators_test

import (
	"flag"
	"math/rand/v2"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/optest"
	"endoscope/planner/plan"
)

// agree draws a plan and an input, and holds the engine to the oracle.
func agree(t *rapid.T) {
	root, in := optest.RandomPlan(t), optest.RandomInput(t)
	e := fast{}
	if rapid.Bool().Draw(t, "sparse") {
		e.sparse = rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	}
	if diff := optest.Check(e, root, in); diff != "" {
		t.Fatalf("%s\n%s", diff, caseText(root, in))
	}
}

func caseText(root plan.Node, in *optest.Input) string {
	return plan.Tree(root) + optest.FormatInput(in)
}

// TestEngineAgreesWithOracle is the short form of FuzzEngine: 2,000 cases, the
// same in every run. New ones are for FuzzEngine, and for -rapid.checks.
func TestEngineAgreesWithOracle(t *testing.T) {
	forSeeds(t, 20, agree)
}

// forSeeds checks n times the usual number of cases, the same in every run.
func forSeeds(t *testing.T, n int, property func(*rapid.T)) {
	seed := flag.Lookup("rapid.seed")
	defer seed.Value.Set(seed.Value.String())
	for i := range n {
		seed.Value.Set(strconv.Itoa(i + 1))
		rapid.Check(t, property)
	}
}

// FuzzEngine looks for plans and inputs on which the engine and the oracle
// differ.
func FuzzEngine(f *testing.F) { f.Fuzz(rapid.MakeFuzz(agree)) }

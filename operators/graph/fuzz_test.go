package graph_test

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/optest"
	"endoscope/operators/optest/seeds"
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
	return optest.Tree(root) + optest.FormatInput(in)
}

// TestEngineAgreesWithOracle is the short form of FuzzEngine: 2,000 cases.
func TestEngineAgreesWithOracle(t *testing.T) {
	seeds.Check(t, 20, agree)
}

// FuzzEngine looks for plans and inputs on which the engine and the oracle
// differ.
func FuzzEngine(f *testing.F) { f.Fuzz(rapid.MakeFuzz(agree)) }

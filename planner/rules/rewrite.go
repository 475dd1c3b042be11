package rules

import (
	"slices"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Env is the environment of rules.
type Env struct {
	// Eval computes an expression without columns.
	Eval func(plan.Expr) (types.Value, error)
	// Session is the target of acquisitions without one.
	Session plan.Target
	// NoKernel leaves aggregates to the engine.
	NoKernel bool
}

// Rule is a rewrite of one node whose inputs have been rewritten.
type Rule struct {
	Name    string
	Why     string
	Counter string // where it must not fire
	// Apply returns the new node and whether the rule fired.
	Apply func(n plan.Node, env *Env) (plan.Node, bool)
}

// on returns the Apply of a rule about nodes of type N.
func on[N plan.Node](apply func(N) (plan.Node, bool)) func(plan.Node, *Env) (plan.Node, bool) {
	return func(n plan.Node, _ *Env) (plan.Node, bool) {
		if x, ok := n.(N); ok {
			if next, ok := apply(x); ok {
				return next, true
			}
		}
		return n, false
	}
}

// onFiltered is on for a filter and its input of type N.
func onFiltered[N plan.Node](apply func(f *plan.Filter, in N) (plan.Node, bool)) func(plan.Node, *Env) (plan.Node, bool) {
	return on(func(f *plan.Filter) (plan.Node, bool) {
		if in, ok := f.Input.(N); ok {
			return apply(f, in)
		}
		return nil, false
	})
}

// Local lists the rules that consider one node at a time, in the order in which they are
// tried; they run until none fires.
var Local = slices.Concat(foldRules, filterRules, joinRules, acquireRules, projectRules, limitRules)

// Global lists the rules that consider the whole plan, run once, in order.
var Global = []struct {
	Rule
	apply func(plan.Node, *Env) (plan.Node, bool)
}{
	{sessionTarget, applySessionTarget},
	{targetFromPattern, applyPattern},
	{targetFromModule, applyModule},
	{pruneColumns, applyPrune},
	{removeIdentity, applyIdentity},
	{acquireOnce, applyOnce},
	{shareSubplans, applyShare},
	{aggregateIntoAcquisition, applyPartial},
}

// maxPasses bounds the fixpoint; it is never reached, because every rule makes a plan
// smaller or moves something towards the leaves.
const maxPasses = 100

// Rewrite rewrites a plan and returns the names of the rules that fired, each once, in
// order of their first firing.
func Rewrite(root plan.Node, env *Env) (plan.Node, []string, error) {
	var fired []string
	note := func(name string) {
		if !slices.Contains(fired, name) {
			fired = append(fired, name)
		}
	}
	for range maxPasses {
		changed := false
		root = plan.TransformNodes(root, func(n plan.Node) plan.Node {
			for _, r := range Local {
				if next, ok := r.Apply(n, env); ok {
					n, changed = next, true
					note(r.Name)
				}
			}
			return n
		})
		if !changed {
			break
		}
	}
	for _, g := range Global {
		next, ok := g.apply(root, env)
		if ok {
			note(g.Name)
			root = next
		}
	}
	return root, fired, nil
}

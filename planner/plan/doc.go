// Package plan holds the logical plan: immutable nodes, resolved and typed
// expressions, the tables of functions and aggregates, and the text of plans.
//
// It is what the planner makes and what operators, probes and server read. It
// must not know how SQL is spelled (package parser), how a plan is improved
// (planner/rules), nor how anything is executed.
//
// Nodes are values shared freely between goroutines and between plans: nobody
// changes one after it was made. A rewrite makes new nodes. Two uses of the
// same *pointer* are one shared sub-plan, executed once.
package plan

// Package plan holds the logical plan: immutable nodes, resolved and typed expressions, the
// tables of functions and aggregates, and the text of plans.
//
// The planner builds it; operators, probes and server read it. It must not know the syntax
// of SQL (package parser), rewrites (planner/rules), nor how anything is executed.
//
// Nodes are immutable values shared between goroutines and between plans. A rewrite creates
// new nodes. Two uses of the same *pointer* are one shared sub-plan, executed once.
package plan

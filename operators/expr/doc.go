// Package expr compiles resolved expressions (planner/plan) into programs
// that run over whole batches, one kernel per operation and physical type.
//
//	a > 5 AND s LIKE 'x%'
//
//	Filter      and ── a > 5          int kernel, column ⊗ constant: rows → rows
//	             └──── table[s.code]  LIKE ran once per dictionary entry
//
// Three ideas make it fast:
//
//   - Rows are chosen, not copied. Every step gets the physical rows that
//     count and touches no others; a conjunction hands each conjunct the rows
//     that the ones before it left.
//   - What depends on one dictionary-coded column only is computed once per
//     dictionary entry and looked up by code afterwards (dict.go).
//   - A program owns its result columns and reuses them, so that a batch
//     allocates nothing.
//
// Semantics are those of planner/plan: the table Scalars for functions, the
// comments of plan.Call, plan.In, plan.Case and plan.Cast for the rest.
//
// A Program or Filter belongs to one goroutine; compile one for each.
//
// The package must not know SQL text, operators, probes or the network.
package expr

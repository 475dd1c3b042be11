// Package expr compiles resolved expressions (planner/plan) into programs that run over
// whole batches, one kernel per operation and physical type.
//
//	a > 5 AND s LIKE 'x%'
//
//	Filter      and ── a > 5          int kernel, column ⊗ constant: rows → rows
//	             └──── table[s.code]  LIKE ran once per dictionary entry
//
// Three techniques make it fast:
//
//   - Rows are selected, not copied. Every step gets the selected physical rows
//     and touches no others; a conjunction passes each conjunct the rows that
//     the earlier ones left.
//   - What depends on one dictionary-coded column only is computed once per
//     dictionary entry and then looked up by code (table.go).
//   - A program owns its result columns and reuses them, so that a batch
//     allocates nothing.
//
// The semantics are defined in planner/plan: the table Scalars for functions, the comments
// of plan.Call, plan.In, plan.Case and plan.Cast for the rest.
//
// A Program or Filter belongs to one goroutine; compile one for each.
//
// The package must not know SQL text, operators, probes or the network.
package expr

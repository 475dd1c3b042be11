// Package planner turns syntax trees into plans:
//
//	ast ─ resolve ─► rewrite ─────► order ─► place ─► split ─► plan.Query
//	      names,     planner/rules  Gatings  Divide: what a client may execute
//	      types,
//	      enumerability,
//	      views inlined
//
// It knows the catalog and the language's meaning. It must not know how
// anything is acquired or executed: what it needs from outside (the columns of
// a file, the value of a constant expression, the session's target) it gets
// through [Env].
package planner

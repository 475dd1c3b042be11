// Package planner turns syntax trees into plans:
//
//	ast ─ resolve ─► rewrite ─────► order ─► plan.Query ─► distribute.Divide: what a client may execute
//	      names,     planner/rules  Gatings
//	      types,
//	      enumerability,
//	      views inlined
//
// Of a query over several hosts each plans its share ([PlanShare]): what was resolved is
// divided by distribute.Hosts, and the lower part goes on as above.
//
// It knows the catalog and the language's meaning. It must not know how
// anything is acquired or executed: what it needs from outside (the columns of
// a file, the value of a constant expression, the session's target) it gets
// through [Env].
package planner

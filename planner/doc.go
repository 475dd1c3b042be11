// Package planner turns syntax trees into plans:
//
//	ast ─ resolve ─► rewrite ─────► plan.Query ─► distribute.Divide: what a client may execute
//	      names,     planner/rules              ─► order.Gatings: how joins may be acquired
//	      types,
//	      enumerability,
//	      views inlined
//
// For a query over several hosts each host plans its share ([PlanShare]):
// distribute.Hosts divides the resolved plan, and its lower part is processed as
// above.
//
// To add something, write this:
//
//	rule        a [rules.Rule] with its reason and counter-example in the file of its
//	            family in planner/rules; a new family is a slice in rules.Local.
//	            Golden plans in planner/testdata/plan name it
//	plan node   the struct in plan/node.go, its methods in plan/describe.go, a case in
//	            rules/prune.go (columns that it reads), in operators/graph/build.go and
//	            in operators/optest/oracle.go; planpb and plan/fragment_check.go if a
//	            client may execute it
//	statement   the struct in parser/ast.go with its grammar and printing; if it has a
//	            query, a function beside [Plan] that returns its plan; a case in
//	            server/session.go
//
// It knows the catalog and the language's meaning. It must not know how anything
// is acquired or executed: what it needs from outside (the columns of a file, the
// value of a constant expression, the session's target) it gets through [Env].
package planner

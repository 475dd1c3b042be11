// Package operators is the contract of what executes plans: push-based operators over
// columnar batches.
//
//	source ─Push/Signal─► filter ─► project ─► aggregate ─► sort ─► sink
//
// An [Operator] receives batches and [Signal] values on its ports and returns a [Status].
// Calls are synchronous: one goroutine drives one fragment, and channels exist only at
// edges (a probe, the network), outside these packages.
//
//	operators            the contract, Options, Output (an operator's consumer)
//	operators/batch      columns, dictionaries, pools
//	operators/expr       compiled expressions
//	operators/rowstore   rows and keys that an operator keeps between batches
//	operators/agg        GROUP BY; fold: the contract of an aggregate function;
//	                     grouping: tables of keys; encode: aggregates that encode
//	operators/join       WINDOW JOIN, ASOF JOIN, joins with values
//	operators/window     TUMBLE, HOP, SESSION
//	operators/sort       ORDER BY
//	operators/graph      builds a plan; filter, project, limit, union, distinct, insert ...
//	operators/encoders   encodings of sequences, without SQL; structure: runs,
//	                     grammars, automata; render: pictures
//	operators/estimate   what was seen in slices of time as estimates, without operators
//	operators/optest     the oracle and random plans, for tests only
//
// To add something, write this:
//
//	operator         its file in operators/graph (or a package beside join), and a
//	                 case of builder.operator in operators/graph/build.go
//	aggregate        a file in operators/agg that implements fold.Accumulator and calls
//	                 define, and a row of plan.AggFuncs
//	encoder          a file in operators/encoders or encoders/structure that implements
//	                 encoders.Encoder, an entry of encoderMakers in
//	                 operators/agg/encode, and a row of plan.Encoders
//	scalar function  a builder in the file of its family in operators/expr, an entry
//	                 of strictCalls or laxCalls in expr/calls.go, a row of
//	                 plan.Scalars
//
// Each has a test beside it. The oracle (operators/optest) computes operators, aggregates
// and scalar functions independently: add it there too, so that random plans compare the
// two.
//
// The packages must not know SQL, probes, sessions or the network.
package operators

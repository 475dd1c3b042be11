// Package optest tests engines that execute plans: a naive row engine that defines the
// meaning of a plan, scripts that any engine can run, and generators of random plans and
// inputs.
//
//	         ┌─► Oracle ───────────┐
//	script ──┤                     ├─► Compare
//	random ──┴─► the engine's Run ─┘
//
// The [Oracle] evaluates a plan in the most obvious way: an operator is a function from all
// its input to all its output, rows are slices of values, a group is a slice of rows that
// is aggregated from scratch whenever its result is needed, sums are integers without
// limit. It was written from the meaning of the plan (the comments of planner/plan), shares
// no code with the operators, and must stay so: its value is its independence.
//
// # Scripts
//
// A script is a file of package datadriven: commands, their input, and after ---- their
// output. "go test -rewrite" writes the latter.
//
//	load                                 the contents of the streams, in order of arrival
//	stream calls.csv timestamp name:varchar ms:bigint
//	1s  read  3
//	2s  null  4                          a row: cells separated by blanks; '' is the empty text
//	--                                   a batch ends here; so it does before everything but a row
//	watermark 2s
//	lost 3 ring_full                     events that the source counted as lost
//	tick 3s                              the clock, for every stream: EMIT EVERY is due
//	preview 3s                           the clock, for a display that requests the current result
//	end                                  the stream ends; otherwise it ends with the input
//	----
//
//	eval                                 the plan of a statement over the last load
//	SELECT name, COUNT(*) FROM file('calls.csv') GROUP BY name ORDER BY name
//	----
//	name count(*)
//	read 1
//	null 1
//	flush
//
// A timestamp is written, and printed, as the time since the epoch, because 1s is easier to
// follow through windows than a date. If there are several streams, "stream" without
// columns switches back to a stream declared before. "flush" and "flush preview" end a
// result; "lost 2 late" at the end counts rows, "drained calls.csv" means that the stream
// was asked to stop; files that an INSERT wrote follow by name.
//
// Every statement is also evaluated by the oracle, which must agree.
//
// The rows between two flushes are printed in order if the statement has an ORDER BY, and
// sorted if it does not, because then any order is correct.
//
// The package must not know operators, SQL or the planner: the caller of a script supplies
// the engine and the function that turns a statement into a plan.
package optest

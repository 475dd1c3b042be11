// Package optest tests engines that execute plans: a naive row engine that
// says what a plan means, scripts that any engine can run, and generators of
// random plans and inputs.
//
//	         ┌─► Oracle ───────────┐
//	script ──┤                     ├─► Compare
//	random ──┴─► the engine's Run ─┘
//
// The [Oracle] evaluates a plan in the most obvious way that there is: an
// operator is a function from all that comes in to all that goes out, rows are
// slices of values, a group is a slice of rows that is aggregated from scratch
// whenever its result is asked for, sums are integers without limit. It was
// written from the meaning of the plan (the comments of planner/plan), shares
// no code with the operators, and must stay so: it is worth as much as it is
// different.
//
// # Scripts
//
// A script is a file of package datadriven: commands, their input, and after
// ---- what they give. "go test -rewrite" writes the latter.
//
//	load                                 what the streams give, in order of arrival
//	stream calls.csv timestamp name:varchar ms:bigint
//	1s  read  3
//	2s  null  4                          a row: cells separated by blanks; '' is the empty text
//	--                                   a batch ends here; so it does before everything but a row
//	watermark 2s
//	lost 3 ring_full                     events that the source counted as lost
//	tick 3s                              the clock, for every stream: EMIT EVERY is due
//	preview 3s                           the clock, for a display that wants the result so far
//	end                                  the stream ends; streams that say nothing end at last
//	----
//
//	eval                                 the plan of a statement over what was loaded last
//	SELECT name, COUNT(*) FROM file('calls.csv') GROUP BY name ORDER BY name
//	----
//	name count(*)
//	read 1
//	null 1
//	flush
//
// A timestamp is written, and printed, as the time since the epoch, for 1s is
// easier to follow through windows than a date. Where there are several
// streams, "stream" without columns goes back to one that was declared before.
// "flush" and "flush preview" end a result; "lost 2 late" at the end
// counts rows, "drained calls.csv" means that the stream was told to stop;
// files that an INSERT wrote follow by name.
//
// Every statement is also put to the oracle, which must agree.
//
// The rows between two flushes are printed in order if the statement gives one
// by ORDER BY, and sorted if it does not, for then any order is right.
//
// The package must not know operators, SQL or the planner: whoever runs a
// script supplies the engine and what turns a statement into a plan.
package optest

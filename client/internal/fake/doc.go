// Package fake is an engine without probes, for tests of the client. Each of
// its streams behaves in one way that a client must be ready for:
//
//	calls      three rows, then the end
//	types      a row with every type, a row of NULLs, a row of hostile text
//	stacks     two stacks with a number
//	none       no rows
//	windows    two emitted results
//	lossy      a row, losses and counts
//	noisy      a row between two notices
//	totals     previews, then, once stopped, the final result
//	endless    rows until it is stopped
//	silent     nothing until it is stopped
//	late       a row after a second and a half
//	broken     a row, then an error
//	ctrl_c     a row, then a SIGINT; once stopped, a last row
//	stubborn   two SIGINTs, and stopping has no effect
//	sigterm    as ctrl_c, with SIGTERM
//	slow_start a SIGINT before the statement is accepted
//
// Other statements: SHOW STREAMS, DESCRIBE stream, SET k = v, SHOW SETTINGS,
// CREATE STREAM; and CREATE TRIGGER, whose trigger returns two rows and
// notifies twice: at once, or one step at each SIGUSR1 if it is ON silent.
// Anything else is refused.
//
// Closing an engine fails if a result was neither read to its end nor closed,
// or a session was left open: nothing may stay attached.
package fake

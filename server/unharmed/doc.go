// Package unharmed is the proof, in tests alone, that observing a program does
// not change what it does: small programs that do what is hard on probes
// (testdata, one file each) run to their normal end with the output that they
// have untouched, under queries over all of their functions, whenever these are
// armed and disarmed; and each of their calls is counted, as a row or by the
// cause for which it is none.
//
// It knows the engine only as a user does, by statements.
package unharmed

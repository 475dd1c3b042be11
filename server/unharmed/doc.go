// Package unharmed contains only tests. They show that observation does not change
// a program's behaviour: small programs that are difficult for probes (testdata,
// one file each) run to their normal end with their normal output, under queries
// over all of their functions that are armed and disarmed at any time. Each of
// their calls is counted, as a row or by the cause for which there is no row.
//
// It uses the engine only as a user does, by statements.
package unharmed

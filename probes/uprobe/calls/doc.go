// Package calls says what is observed of the calls of a function: where it is probed,
// how its returns are observed, what its probes cost, and how the values are read that
// a query's columns ask for.
//
// What it holds is made when a query is prepared and read only afterwards; it has no
// locks.
//
// It must not know how functions are found and decided on (package resolve), nor the
// programs and maps of a query in the kernel.
package calls

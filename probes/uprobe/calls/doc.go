// Package calls describes how the calls of a function are observed: where it is
// probed, how its returns are observed, what its probes cost, and how the values for a
// query's columns are read.
//
// Its data is made when a query is prepared and only read afterwards; it has no locks.
//
// It must not know how functions are found and decided on (package resolve), nor the
// programs and maps of a query in the kernel.
package calls

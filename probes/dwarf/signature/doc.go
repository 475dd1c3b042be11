// Package signature reads from debug information the parameters and results of
// functions, and their locations at the entry and at the return.
//
// A parameter is at its recorded location, if that is valid at the entry.
// Unoptimised code stores parameters first, and its locations describe where;
// the register in which a parameter is passed then follows from the calling
// convention: the System V ABI's (C, C++, and Rust's for functions that use
// it), or Go's (cmd/compile/abi-internal.md). The same holds for results, whose
// locations are not recorded.
//
// The result is a value of package codegen, which programs in the kernel read.
// The package must not know probes or queries. Debug information is hostile
// input: what cannot be interpreted is an error in the user's words.
package signature

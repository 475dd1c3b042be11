// Package signature reads from debug information the parameters and results of functions,
// and where they are at the entry and at the return.
//
// A parameter is where its location says, as far as that holds at the entry. Code that is
// not optimised stores parameters first, and its locations mean where; what is passed in
// which register then follows from the calling convention: that of the System V ABI (C,
// C++, and for what its functions take Rust's), or Go's (cmd/compile/abi-internal.md). So
// it does for results, whose locations are not recorded.
//
// What is found is put as package codegen's values, which programs in the kernel read.
// The package must not know probes or queries. Debug information is hostile input: what
// cannot be made sense of is an error in the user's words.
package signature

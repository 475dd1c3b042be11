// Package codesite chooses the instructions that probes are set on.
//
// [In] returns the code of a module. [Code.EntrySiteFor] chooses the cheapest
// instruction on which a probe counts every call exactly once, by the rules of
// the kernel's x86 uprobes. [Code.ReturnTrap] reports whether the return
// address may safely be replaced, and [Code.ExitSitesFor] finds where returns
// are seen without doing so. [Code.CallSources] finds functions that can be
// counted without a probe.
//
// A file is hostile input: what is read from it is bounded and checked, and
// what cannot be understood is refused with a named reason rather than probed
// blindly.
//
// The package must not know processes, eBPF, SQL or streams, nor how names are
// read.
package codesite

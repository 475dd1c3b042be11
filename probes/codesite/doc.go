// Package codesite chooses the instructions that probes are set on.
//
// [In] gives the code of a module. [Code.EntrySiteFor] chooses the cheapest instruction on
// which a probe counts every call exactly once, as the kernel's x86 uprobes would treat it;
// [Code.ReturnTrap] says whether the return address may be replaced without harm, and
// [Code.ExitSitesFor] where returns are seen without. [Code.CallSources] says which functions
// need no probe to be counted.
//
// A file is hostile input: what is read of it is bounded and checked, and what cannot be
// understood is refused by name rather than probed blind.
//
// The package must not know processes, eBPF, SQL or streams, nor how names are read.
package codesite

// Package symbols knows the functions of an ELF file: their names, and where
// and how each may be probed.
//
// [Open] reads names from the symbol tables, Go's pclntab, a separate debug
// file and, for stripped code, the unwind table. [Module.EntrySiteFor] chooses
// the cheapest instruction on which a probe counts every call exactly once, as
// the kernel's x86 uprobes would treat it; [Module.ReturnTrap] says whether the
// return address may be replaced without harm, and [Module.ExitSitesFor] where
// returns are seen without. [Module.Inflows] says which functions need no probe
// to be counted.
//
// [Module.Classes] tells of which C++ class an object is by the address of its
// virtual table, and what that derives from: by run-time type information, which
// stripping does not remove.
//
// What is held of a file grows with the number of its functions: names are read
// from it when they are asked for ([Module.Function], [Module.All]), and are
// found by an index of their hashes ([Module.Find]).
//
// A file is hostile input: everything read is bounded and checked, nothing in
// it makes the package panic, and what cannot be understood is refused by name
// rather than probed blind.
//
// The package must not know processes, eBPF, SQL or streams: it reads files.
package symbols

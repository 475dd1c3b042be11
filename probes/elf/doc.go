// Package elf reads the functions of ELF files: their names, their extents, and the tables
// that say more about their code.
//
// [Open] reads names from the symbol tables, Go's pclntab, a separate debug file and, for
// stripped code, the unwind table. [Module.Classes] tells of which C++ class an object is by
// the address of its virtual table, and what that derives from: by run-time type
// information, which stripping does not remove.
//
// What is kept of a file grows with the number of its functions: names are read
// from it when they are asked for ([Module.Function], [Module.All]), and are
// found by an index of their hashes ([Module.Find]).
//
// A file is hostile input: everything read is bounded and checked, and nothing in
// it makes the package panic.
//
// The package must not know where probes are set, nor processes, eBPF, SQL or streams: it
// reads files.
package elf

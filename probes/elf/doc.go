// Package elf reads the functions of ELF files: their names, their extents, and
// the tables that describe their code.
//
// [Open] reads names from the symbol tables, Go's pclntab, a separate debug
// file and, for stripped code, the unwind table. [Module.Classes] finds the C++
// class of an object, and its bases, by the address of its virtual table, from
// run-time type information, which stripping does not remove.
//
// [Module.Calls] finds the inlined calls and the source lines of an instruction: in the debug
// information ([Module.Source]) or, of Go, in the pclntab.
//
// Memory per file grows with the number of its functions only: names are read
// from the file on request ([Module.Function], [Module.All]), and are found by
// an index of their hashes ([Module.Find]).
//
// A file is hostile input: everything read is bounded and checked, and nothing
// in it makes the package panic.
//
// The package must not know where probes are set, nor processes, eBPF, SQL or
// streams: it reads files.
package elf

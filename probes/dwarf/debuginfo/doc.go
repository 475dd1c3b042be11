// Package debuginfo reads the debug information of programs (DWARF 2 to 5): with package
// debug/dwarf, but within bounds of memory, stack and time, since a file may be hostile. It
// must not know functions' signatures, names of symbols, or probes.
package debuginfo

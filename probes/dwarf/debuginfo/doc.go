// Package debuginfo reads the debug information of programs (DWARF 2 to 5), within bounds of
// memory, stack and time, since a file may be hostile: as package debug/dwarf has it ([Info]), and
// which source lines and inlined calls addresses belong to ([Source]), for which it reads only
// the units that are asked for. It must not know functions' signatures, names of symbols, or
// probes.
package debuginfo

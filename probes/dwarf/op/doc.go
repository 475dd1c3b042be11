// Package op evaluates DWARF expressions: to a number, as rules of unwinding do
// ([Evaluate]), or to the place of an object ([Locate]). It must not know where an
// expression comes from: neither files, nor debug information, nor processes.
//
// Package op of delve is not used: it has no bounds for expressions of a hostile file, and
// of an object in memory it tells an address, where a probe needs the register and the
// offset that will give the address.
package op

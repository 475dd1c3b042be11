// Package op evaluates DWARF expressions: to a number, as unwind rules need
// ([Evaluate]), or to the location of an object ([Locate]). It must not know
// where an expression comes from: neither files, nor debug information, nor
// processes.
//
// Package op of delve is not used: it has no limits for expressions of a
// hostile file, and for an object in memory it returns an address, where a
// probe needs the register and the offset from which to compute the address.
package op

// Package leb128 reads and writes the encoded values of debug information and
// unwind tables: LEB128, integers of fixed size, blocks and strings. It must
// not know their meaning.
package leb128

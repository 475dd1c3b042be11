// Package leb128 reads and writes the numbers of debug information and unwind tables:
// LEB128, integers of fixed size, blocks and strings. It must not know what they mean.
package leb128

// Package shape describes how the bytes of an object of the program are divided into
// fields and elements, and prints them as JSON.
//
// It must not know where shapes come from (debug information) or how bytes are read.
package shape

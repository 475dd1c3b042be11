// Package play runs a plan over a script of rows and signals and returns the output as
// text. Package testplan has the notation.
//
// No production package imports it.
package play

// Package completion finds the completions of the word at a cursor in a statement that is
// being written: keywords and functions of the language, and the names that a session
// knows.
//
// It reads text that does not parse yet. It must not know how candidates are shown.
package completion

// Package repl reads statements and backslash commands from a prompt, a pipe or a
// file, and executes them one after the other.
//
//	terminal (readline: history, completion, colours) ┐
//	lines    (pipe, file, -f, \i)                     ├─ Input ─► Shell ─► runner
//	-c text                                           ┘
//
// It finds the end of a statement and completes words. It must not know what
// statements mean: it passes their text to the session.
package repl

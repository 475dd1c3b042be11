// Package repl is the conversation: it reads statements and backslash commands
// from a prompt, a pipe or a file, and has them run one after the other.
//
//	terminal (readline: history, completion, colours) ┐
//	lines    (pipe, file, -f, \i)                     ├─ Input ─► Shell ─► runner
//	-c text                                           ┘
//
// It knows where a statement ends and what it could go on with; it must not
// know what statements mean: it hands their text to the session.
package repl

// Package doctor examines what Endoscope depends on: the kernel and what restricts
// this process on it (Machine), and what can be known of a program (Target). Each
// Check says what was found and the one thing to do if that is not enough.
//
// Whether a stream works is not derived from these: the session tries it
// (server/checks.go).
//
// It attaches nothing. It must not know sessions or statements.
package doctor

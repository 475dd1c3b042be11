// Package introspect says what there is: in the engine (the sys streams, from a System),
// and in the program that a session is about (its functions, methods of Java and marked
// places, from a Program).
//
// It has no locks: what it lists is guarded by those that own it.
//
// It must not know sessions, nor how statements are parsed or permitted.
package introspect

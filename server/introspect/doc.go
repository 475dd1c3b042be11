// Package introspect lists what exists: in the engine (the sys streams, from a
// System), and in the target of a session (its functions, Java methods and USDT
// markers, from a Program).
//
// It has no locks: the owners of what it lists guard it.
//
// It must not know sessions, nor how statements are parsed or permitted.
package introspect

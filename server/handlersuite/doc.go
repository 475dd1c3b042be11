// Package handlersuite measures, in tests alone, how well event handlers are
// found: programs whose handlers are known run under load, and what the stream
// event_handlers says of them after some seconds is compared with the sets that
// the tests name. Precision and recall are printed, for each program and over all.
//
// It knows the engine only as a user does, by statements.
package handlersuite

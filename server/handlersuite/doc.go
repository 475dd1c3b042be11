// Package handlersuite contains only tests. They measure how well event handlers
// are found: programs with known handlers run under load, and the output of the
// stream event_handlers after some seconds is compared with the sets named by the
// tests. Precision and recall are printed for each program and in total.
//
// It uses the engine only as a user does, by statements.
package handlersuite

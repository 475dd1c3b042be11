// Package handlerstream acquires event_handlers and handler_cost: event
// handlers found in samples of stacks, and the calls of those handlers while
// they are found.
//
// Locks are taken in this order; sinks are called under them:
//
//	handlersSource.mu    while it analyses and delivers rows, which a handlerCostSource takes
//	handlerCostSource.mu while it passes on calls
//
// Goroutines: each handlerCostSource has one that attaches and detaches probes;
// Stop waits for it.
//
// It must not know queries, nor how stacks are sampled or functions are probed.
package handlerstream

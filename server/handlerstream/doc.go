// Package handlerstream acquires event_handlers and handler_cost: event handlers that
// are found in samples of stacks, and the calls of those that are found, while they are.
//
// Locks are taken in this order; sinks are called under them:
//
//	handlersSource.mu    while it analyses and gives rows, which a handlerCostSource takes
//	handlerCostSource.mu while it hands on calls
//
// Goroutines: each handlerCostSource has one, which attaches and detaches probes; Stop
// waits for it.
//
// It must not know queries, nor how stacks are sampled or functions are probed.
package handlerstream

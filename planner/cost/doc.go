// Package cost prices the ways to acquire the inputs of window joins, and keeps
// choosing between them while rates change (EndoScope, section 5.3).
//
// It is arithmetic over what others measure: rates of events, prices of events,
// shares of time. It must not know plans, probes or clocks.
package cost

// Package cost estimates the cost of the ways to acquire the inputs of window joins, and
// chooses between them while rates change (EndoScope, section 5.3).
//
// It is arithmetic over measured rates of events, costs of events and shares of time. It
// must not know plans, probes or clocks.
package cost

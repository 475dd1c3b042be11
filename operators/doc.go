// Package operators executes plans: push-based operators over columnar
// batches, one operator in one file with one test.
//
//	source ─Push/Signal─► filter ─► project ─► aggregate ─► sort ─► sink
//
// [Build] turns a plan into a chain of operators and says which leaf feeds
// which port: rows one by one, and those that a source has folded into groups
// already, which the aggregate merges. Calls are synchronous: one goroutine
// drives one fragment, and channels exist only at edges (a probe, the network),
// outside this package.
//
// It must not know SQL, probes, sessions or the network.
package operators

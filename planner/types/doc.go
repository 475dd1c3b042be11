// Package types defines the types, values and schemas of the language. The planner resolves
// queries to them, and batches store them.
//
// It must not know anything else of this project: every other package may import it.
package types

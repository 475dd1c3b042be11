// Package rowstore keeps rows and keys between batches: [Store] holds rows in its own
// columns, [KeyTable] numbers distinct keys, [Gatherer] copies rows of many batches into
// dense ones. Strings are translated once per dictionary entry, not once per row.
//
// It must not know operators.
package rowstore

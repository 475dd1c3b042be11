// Package rowstore keeps rows and keys between batches: [Store] holds rows in columns
// of its own, [KeyTable] numbers distinct keys, [Gatherer] copies rows of many batches
// into dense ones. Strings are translated once for each dictionary entry
// ([Translator]), not once for each row.
//
// It must not know operators.
package rowstore

// Package catalog lists what can be queried: the built-in streams with their columns, and
// the settings. SHOW, DESCRIBE, name resolution and the probe providers all read it;
// providers build their columns from it (probes/rows), so each column is defined once.
//
// One file describes one family of streams. To add a stream, write its family's file, name
// the family in Streams, and write the provider that acquires it.
//
// It must not know plans, how anything is acquired, or the state of a machine.
package catalog

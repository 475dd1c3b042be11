// Package rows encodes a provider's records as batches of a stream.
//
// A provider declares once how each column of the catalog is computed from its
// record type: a Table. Tables are package variables, so the program panics at
// its start if a column is not in the catalog, a column of the catalog is
// missing, or a type differs. For a query, Table.Writer compiles the requested
// columns to a list of appenders, and Writer.Add loops over them: it looks up
// no names and allocates nothing. The writer owns the pool of batches, and
// replaces dictionaries that have grown large.
//
// It must not know how any stream is acquired.
package rows

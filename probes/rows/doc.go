// Package rows makes the batches of a stream from a provider's records.
//
// A provider declares once how each column of the catalog is made from its record
// type: a Table. Tables are package variables, so a column that the catalog lacks,
// a column of the catalog that is not made, or one of another type stops the program
// at its start. For a query, Table.Writer compiles the columns asked for to a list of
// appenders, and Writer.Add is a loop over them: it looks at no names and allocates
// nothing. The writer keeps the pool of batches, and renews dictionaries that have
// grown large.
//
// It must not know how any stream is acquired.
package rows

// Package states encodes what an aggregate function has folded, so that it can be sent
// and merged elsewhere: values, counts and strings behind a version ([AppendAll],
// [Merge], [Reader]), and rows for the functions that depend on their order ([Rows],
// [RowsReader]).
//
// It must not know any aggregate function, nor who merges states.
package states

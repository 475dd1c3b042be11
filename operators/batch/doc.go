// Package batch defines the unit in which data moves through Endoscope: a set of typed
// columns of at most [MaxRows] rows, with dictionary-coded strings and a selection vector.
//
// It knows columns and their reuse; types and values are in planner/types. It must not know
// plans, expressions, operators, probes or the network.
//
// Rules for every user of a batch:
//
//   - A batch is immutable once it has been pushed to an operator. To keep it
//     after the call, retain it ([Batch.Retain]) and release it later;
//     otherwise do not use it after the call returns.
//   - A filter does not copy rows: it pushes a view ([Batch.View]) that shares
//     the columns and carries a shorter selection vector.
//   - Strings are codes into a [Dict] that only grows. A column carries the
//     snapshot of the dictionary's values that its codes need, so a reader
//     never races with the source that adds to it.
package batch

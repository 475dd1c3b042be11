// Package sort executes ORDER BY, with LIMIT as top-N, over each result that a Flush
// or Tick ends.
//
// It must not know which operators produced the rows.
package sort

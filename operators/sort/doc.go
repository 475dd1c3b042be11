// Package sort executes ORDER BY, with LIMIT as top-N, over each result that a Flush
// or Tick ends.
//
// It must not know what the results are of.
package sort

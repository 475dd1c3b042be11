// Package join executes WINDOW JOIN, FOLLOWED BY, ASOF JOIN and joins with values that are
// computed on demand: two sides keep rows until no partner can come any more.
//
// It must not know how a plan is built or why a join was chosen.
package join

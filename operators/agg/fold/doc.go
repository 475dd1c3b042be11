// Package fold is the contract of an aggregate function ([Accumulator]) and the
// memory of small states ([Lanes]).
//
// It must not know any aggregate function.
package fold

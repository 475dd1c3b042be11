// Package grouping numbers the keys of GROUP BY: a [Table] assigns each row the number
// of its group. There is one kind of table for one dictionary-coded key, one for keys
// that fit into a word, and one for all others.
//
// It must not know aggregate functions or windows.
package grouping

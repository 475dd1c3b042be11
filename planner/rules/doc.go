// Package rules rewrites plans into cheaper ones with the same rows.
//
// A file holds a family of rules. Each [Rule] has a name (EXPLAIN and the golden plans
// print the rules that fired), the reason for it, and a counter-example: a similar case in
// which it would be wrong and therefore does not fire.
//
// It must not know SQL's text, nor how anything is executed.
package rules

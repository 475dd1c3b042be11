// Package answer holds the results of statements that run no query: tables that
// are computed at once (SHOW, DESCRIBE, EXPLAIN), messages, refusals with their
// position in the statement, and the format of numbers and lists in them.
//
// It must not know sessions, queries, or what the answers are about.
package answer

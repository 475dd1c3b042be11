// Package answer is what statements are answered with that run no query: tables that
// are there already (SHOW, DESCRIBE, EXPLAIN), messages, refusals with their place in
// the statement, and how numbers and lists are written in them.
//
// It must not know sessions, queries, or what the answers are about.
package answer

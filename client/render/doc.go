// Package render shows results: one file for each format.
//
//	table     aligned columns for people, streaming, with live previews
//	markdown  a table to paste into a document
//	csv       for spreadsheets and scripts: a header line, exact values
//	jsonl     an object a line, exact values
//	json      one array of objects
//	raw       values as they are: a text that is an SVG comes out as one
//
//	arrow, parquet              files of columns, streaming
//	pprof, folded, speedscope   stacks, added up (profile.go)
//	perfetto                    a trace of calls, events and counters, streaming
//	svg, html                   pictures
//
// To add a format, write a file that implements [Renderer] and calls define, and its name in
// [Formats]. A format that cannot represent a result says which columns it needs.
//
// Formats for people (table, markdown) round and shorten (1.23ms) and escape
// every character that could move a cursor: names come from the monitored
// program, which may be hostile. Formats for machines (csv, json, jsonl) lose
// nothing: durations are nanoseconds, timestamps RFC 3339 with nanoseconds,
// and they allocate nothing per row.
//
// It knows batches and columns. It must not know sessions, engines, statements
// or signals: the reader of a result drives a [Renderer].
package render

// Package replay is the provider of streams from files and generators rather
// than from running programs: file('in.csv'), file('in.jsonl') and series(n).
//
// [Describe] determines a file's columns and types from its first rows, for the
// planner. A replay is not live: it runs as fast as its sink accepts rows.
//
// Event time is the column `timestamp`, or else the line number, an extra
// column. The rows of a file may be in any order of time and results must not
// depend on it, so a file with timestamps is read twice: first for the
// timestamps only, keeping the least after each batch (8 bytes for 1,024 rows),
// then for the rows; the watermark after a batch is the least timestamp that
// still follows. No row of a file is ever late.
//
// Data that does not fit is always reported: a value that is not of its
// column's type is NULL and counted, as are rows with too few or too many
// fields and keys that were not in the first rows; a line that is not JSON, or
// a row without a readable timestamp from 1704 to 2235, is counted as lost.
//
// CSV is RFC 4180 as encoding/csv reads it with LazyQuotes, with an optional
// byte order mark; the first record names the columns; an empty field is NULL.
//
// The package must not know SQL, operators, sessions or the network, nor who
// may read which file: the server checks that.
package replay

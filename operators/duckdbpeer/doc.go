// Package duckdbpeer measures Endoscope's filter and grouping beside DuckDB's,
// on the same rows, on one thread each, in one run:
//
//	cd operators/duckdbpeer && go test -bench . -benchtime 5x
//
// It is a module of its own, because DuckDB needs cgo and the product has
// none.
//
// The query is SELECT name, COUNT(*), SUM(x) FROM rows WHERE x < 50 GROUP BY
// name, over x drawn from 0 to 99 and 10, 10,000 or 1,000,000 different names.
// Ours starts from what a source has, names as bytes and offsets, and is
// timed with building the dictionary, from nothing, and with giving the result.
// DuckDB's rows lie in a table in memory before its time begins, and its result
// is reduced to one row by an outer aggregate, so that no driver's speed counts:
// it is spared what reading the rows in would cost.
package duckdbpeer

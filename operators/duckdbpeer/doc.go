// Package duckdbpeer measures Endoscope's filter, grouping and joins beside
// DuckDB's, on the same rows, on one thread each, taking turns in one run:
//
//	cd operators/duckdbpeer && go test -bench . -benchtime 5x
//
// It is a module of its own, because DuckDB needs cgo and the product has
// none.
//
// BenchmarkGroup's query is SELECT name, COUNT(*), SUM(x) FROM rows WHERE x < 50 GROUP BY
// name, over x drawn from 0 to 99 and 10, 10,000 or 1,000,000 different names,
// of about 10 bytes and of about 30. Medians are in million rows for each second
// of processor time, and for each second that passed.
//
//   - "duckdb": its rows lie in a table in memory before its time begins, and
//     its result is reduced to one row by an outer aggregate, so that no driver
//     counts. It is spared what reading the rows in would cost.
//   - "ours" starts from what a source has, names as bytes and offsets, and is
//     timed with coding them into a dictionary, new for each run, and with
//     giving the result. The filter is the leaf's: the source applies it before
//     it codes names, as DuckDB's scan does before it groups.
//   - "ours-filter-later" codes every name, and the filter is an operator.
//
// BenchmarkJoin's queries join two streams of a million rows each by a key, at
// most 5 ms apart (DuckDB: a.k = b.k AND b.t BETWEEN a.t - d AND a.t + d) or with
// the latest row before (ASOF JOIN). 10,000 rows lie in the window, 10 % come out
// of order, and one right row in a hundred, or each, has one of the left stream's
// 1,000 keys. DuckDB has all rows at hand when its time begins, and sorts or
// hashes them once; ours come as a monitor sees them, in batches with watermarks,
// and are forgotten when no partner can come any more.
package duckdbpeer

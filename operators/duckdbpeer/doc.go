// Package duckdbpeer benchmarks Endoscope's filter, grouping and joins against DuckDB's, on
// the same rows, with one thread each, alternating in one run:
//
//	cd operators/duckdbpeer && go test -bench . -benchtime 5x
//
// It is a separate module, because DuckDB needs cgo and the product has none.
//
// BenchmarkGroup's query is SELECT name, COUNT(*), SUM(x) FROM rows WHERE x < 50 GROUP BY
// name, over x drawn from 0 to 99 and 10, 10,000 or 1,000,000 distinct names, of about 10
// bytes and of about 30. Results are medians in million rows per second of processor time,
// and per second of wall time.
//
//   - "duckdb": its rows are in a table in memory before its time begins, and
//     an outer aggregate reduces its result to one row, so that driver time
//     does not count. The cost of loading the rows is not included.
//   - "ours" starts from what a source has, names as bytes and offsets. Its
//     time includes coding them into a dictionary, new for each run, and
//     producing the result. The filter is the leaf's: the source applies it
//     before it codes names, as DuckDB's scan does before it groups.
//   - "ours-filter-later" codes every name, and the filter is an operator.
//
// BenchmarkJoin's queries join two streams of a million rows each by a key, at most 5 ms
// apart (DuckDB: a.k = b.k AND b.t BETWEEN a.t - d AND a.t + d) or with the latest row
// before (ASOF JOIN). 10,000 rows lie in the window, 10 % arrive out of order, and one
// right row in a hundred, or each, has one of the left stream's 1,000 keys. DuckDB has all
// rows when its time begins, and sorts or hashes them once; ours arrive as in monitoring,
// in batches with watermarks, and are dropped when no partner can come any more.
package duckdbpeer

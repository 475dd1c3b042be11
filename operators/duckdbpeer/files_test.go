package duckdbpeer

import (
	"bytes"
	"database/sql"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"endoscope/client/render"
	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// fileOfEveryType returns a file in a format, with a row of NULLs and rows at the ends of
// what types can hold.
func fileOfEveryType(t *testing.T, f render.Format) []byte {
	cols := []wire.Column{
		{Name: "b", Type: types.Boolean}, {Name: "i", Type: types.Bigint}, {Name: "f", Type: types.Double}, {Name: "s", Type: types.Varchar},
		{Name: "t", Type: types.Timestamp}, {Name: "d", Type: types.Duration}, {Name: "x", Type: types.Bytes}, {Name: "l", Type: types.List},
	}
	schema, nulls := make([]types.Type, len(cols)), make([]types.Value, len(cols))
	for i, c := range cols {
		schema[i], nulls[i] = c.Type, types.NullOf(c.Type)
	}
	b := batch.New(schema)
	b.AppendRow(types.Bool(true), types.Int(math.MaxInt64), types.Float(0.1), types.Str("世界"), types.Time(1_767_323_045_123_456_789), types.Dur(3_600_000_002_000),
		types.Value{Type: types.Bytes, S: "\x00\xff"}, types.ListOf([]types.Value{types.Str("f"), types.Int(math.MinInt64)}))
	b.AppendRow(nulls...)
	b.AppendRow(types.Bool(false), types.Int(math.MinInt64), types.Float(-1e300), types.Str("bad \xff"), types.Time(-1), types.Dur(-1000), types.Value{Type: types.Bytes}, types.ListOf(nil))
	var out bytes.Buffer
	r, err := render.New(f, &out, cols, render.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Rows(b, false); err != nil {
		t.Fatal(err)
	}
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// check compares what DuckDB reads with the rows of fileOfEveryType; duration and time are
// how those are shown.
func check(t *testing.T, db interface {
	Query(string, ...any) (*sql.Rows, error)
}, from, duration, time string, want ...string) {
	rows, err := db.Query(fmt.Sprintf(`SELECT concat_ws('|', coalesce(b::VARCHAR, 'NULL'), coalesce(i::VARCHAR, 'NULL'), coalesce(f::VARCHAR, 'NULL'), coalesce(s, 'NULL'),
		coalesce(%s::VARCHAR, 'NULL'), coalesce(%s::VARCHAR, 'NULL'), coalesce(hex(x), 'NULL'), coalesce(l::JSON->>0, l::VARCHAR, 'NULL')) FROM %s`, time, duration, from))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		got = append(got, line)
	}
	if err := rows.Err(); err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%v, rows\n%s\nwant\n%s", err, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestDuckDBReadsParquet: DuckDB is the witness of types and values.
func TestDuckDBReadsParquet(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.parquet")
	if err := os.WriteFile(name, fileOfEveryType(t, render.Parquet), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	check(t, db, "'"+name+"'", "d", "epoch_ns(t)",
		"true|9223372036854775807|0.1|世界|1767323045123456789|3600000002000|00FF|f",
		"NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL",
		"false|-9223372036854775808|-1e+300|bad \ufffd|-1|-1000||[]")
}

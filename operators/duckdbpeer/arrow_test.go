//go:build duckdb_arrow

package duckdbpeer

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/duckdb/duckdb-go/v2"

	"endoscope/client/render"
)

// TestDuckDBReadsArrow passes the records of an Arrow file to DuckDB, which knows timestamps
// with a zone and intervals to the microsecond: go test -tags duckdb_arrow.
func TestDuckDBReadsArrow(t *testing.T) {
	r, err := ipc.NewFileReader(bytes.NewReader(fileOfEveryType(t, render.Arrow)))
	if err != nil {
		t.Fatal(err)
	}
	var records []arrow.RecordBatch
	for i := range r.NumRecords() {
		rec, err := r.RecordBatch(i)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, rec)
	}
	reader, err := array.NewRecordReader(r.Schema(), records)
	if err != nil {
		t.Fatal(err)
	}
	connector, err := duckdb.NewConnector("", nil)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var release func()
	if err := conn.Raw(func(c any) error {
		a, err := duckdb.NewArrowFromConn(c.(driver.Conn))
		if err != nil {
			return err
		}
		release, err = a.RegisterView(reader, "file")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer release()
	check(t, onConn{conn}, "file", "epoch_us(d)", "epoch_us(t)",
		"true|9223372036854775807|0.1|世界|1767323045123456|3600000002|00FF|f",
		"NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL",
		"false|-9223372036854775808|-1e+300|bad \ufffd|0|-1||[]")
}

type onConn struct{ *sql.Conn }

func (c onConn) Query(q string, args ...any) (*sql.Rows, error) {
	return c.QueryContext(context.Background(), q, args...)
}

package render

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"pgregory.net/rapid"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// everyType has a column of each type, and rows at the ends of their ranges.
func everyType() ([]wire.Column, *batch.Batch) {
	cols := []wire.Column{
		{Name: "b", Type: types.Boolean}, {Name: "i", Type: types.Bigint}, {Name: "f", Type: types.Double}, {Name: "s", Type: types.Varchar},
		{Name: "t", Type: types.Timestamp}, {Name: "d", Type: types.Duration}, {Name: "x", Type: types.Bytes}, {Name: "l", Type: types.List},
		{Name: "i", Type: types.Bigint}, {Name: "n", Type: types.Null}, {Name: "u", Type: types.Ubigint},
	}
	schema := make([]types.Type, len(cols))
	nulls := make([]types.Value, len(cols))
	for i, c := range cols {
		schema[i], nulls[i] = c.Type, types.NullOf(c.Type)
	}
	b := batch.New(schema)
	null := types.NullOf(types.Null)
	list := types.ListOf([]types.Value{types.Str(`a"b`), types.Int(math.MinInt64), types.NullOf(types.Null), types.ListOf(nil), types.Float(math.NaN())})
	b.AppendRow(types.Bool(true), types.Int(math.MaxInt64), types.Float(math.MaxFloat64), types.Str("grüße, 世界"), types.Time(1_767_323_045_123_456_789),
		types.Dur(math.MinInt64), types.Value{Type: types.Bytes, S: "\x00\xff\xfe"}, list, types.Int(-1), null, types.Uint(math.MaxUint64))
	b.AppendRow(nulls...)
	b.AppendRow(types.Bool(false), types.Int(math.MinInt64), types.Float(math.Inf(-1)), types.Str("bad \xff\xfe end"), types.Time(-1),
		types.Dur(math.MaxInt64), types.Value{Type: types.Bytes}, types.ListOf(nil), types.Int(0), null, types.Uint(1<<63))
	return cols, b
}

// readArrow returns the rows of an Arrow file or, for Parquet, of what its reader returns, as
// texts.
func rowsOfRecord(r arrow.RecordBatch) (rows []string) {
	for i := range int(r.NumRows()) {
		var cells []string
		for _, c := range r.Columns() {
			cell := c.ValueStr(i)
			switch c := c.(type) {
			case *array.Timestamp:
				cell = fmt.Sprint(int64(c.Value(i)))
			case *array.Duration:
				cell = fmt.Sprint(int64(c.Value(i)))
			case *array.Binary:
				cell = fmt.Sprintf("%x", c.Value(i))
			case array.ExtensionArray:
				cell = c.Storage().ValueStr(i)
			case *array.String:
				cell = c.Value(i)
			}
			if c.IsNull(i) || c.DataType().ID() == arrow.NULL {
				cell = "NULL"
			}
			cells = append(cells, cell)
		}
		rows = append(rows, strings.Join(cells, "|"))
	}
	return rows
}

func readArrow(t interface{ Fatal(...any) }, data []byte) (schema *arrow.Schema, rows []string) {
	r, err := ipc.NewFileReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i := range r.NumRecords() {
		rec, err := r.RecordBatch(i)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, rowsOfRecord(rec)...)
	}
	return r.Schema(), rows
}

func readParquet(t interface{ Fatal(...any) }, data []byte) (*file.Reader, []string) {
	f, err := file.NewParquetReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	r, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{BatchSize: 1000}, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	records, err := r.GetRecordReader(context.Background(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer records.Release()
	var rows []string
	for records.Next() {
		rows = append(rows, rowsOfRecord(records.RecordBatch())...)
	}
	return f, rows
}

// write renders batches in a format, and returns the file and what the renderer remarks.
func write(t interface{ Fatal(...any) }, f Format, cols []wire.Column, o Options, bs ...*batch.Batch) (data []byte, remark string) {
	var out bytes.Buffer
	r, err := New(f, &out, cols, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bs {
		if err := errors.Join(r.Rows(b, false), r.Flush(false), r.Tick()); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	if m, ok := r.(Remarker); ok {
		remark = m.Remark()
	}
	return out.Bytes(), remark
}

const listText = `["a\"b",-9223372036854775808,null,[],null]`

func TestArrowKeepsEveryType(t *testing.T) {
	cols, b := everyType()
	data, remark := write(t, Arrow, cols, Options{About: About{Query: "SELECT 1"}}, b)
	schema, rows := readArrow(t, data)
	want := []string{
		"true|9223372036854775807|1.7976931348623157e+308|grüße, 世界|1767323045123456789|-9223372036854775808|00fffe|" + listText + "|-1|NULL|18446744073709551615",
		"NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL",
		"false|-9223372036854775808|-Inf|bad \ufffd end|-1|9223372036854775807||[]|0|NULL|9223372036854775808",
	}
	if strings.Join(rows, "\n") != strings.Join(want, "\n") {
		t.Errorf("rows\n%s\nwant\n%s", strings.Join(rows, "\n"), strings.Join(want, "\n"))
	}
	if q, _ := schema.Metadata().GetValue("endoscope.query"); q != "SELECT 1" || schema.Field(8).Name != "i_2" || schema.Field(7).Type.Name() != "extension" {
		t.Errorf("schema %v", schema)
	}
	if remark != "1 text was not UTF-8: its bytes that are not are U+FFFD" {
		t.Errorf("remark %q", remark)
	}
}

func TestParquetKeepsEveryType(t *testing.T) {
	cols, b := everyType()
	data, _ := write(t, Parquet, cols, Options{About: About{Query: "SELECT 1", Footer: func() string { return "3 rows" }}}, b)
	f, rows := readParquet(t, data)
	want := []string{ // this reader returns JSON as bytes
		"true|9223372036854775807|1.7976931348623157e+308|grüße, 世界|1767323045123456789|-9223372036854775808|00fffe|" + fmt.Sprintf("%x", listText) + "|-1|NULL|18446744073709551615",
		"NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL",
		"false|-9223372036854775808|-Inf|bad \ufffd end|-1|9223372036854775807||5b5d|0|NULL|9223372036854775808",
	}
	if strings.Join(rows, "\n") != strings.Join(want, "\n") {
		t.Errorf("rows\n%s\nwant\n%s", strings.Join(rows, "\n"), strings.Join(want, "\n"))
	}
	about := f.MetaData().KeyValueMetadata()
	for key, want := range map[string]string{"endoscope.query": "SELECT 1", "endoscope.result": "3 rows", "endoscope.unit.d": "ns"} {
		if v := about.FindValue(key); v == nil || *v != want {
			t.Errorf("%s is %v", key, v)
		}
	}
}

// Any rows, in any batches, read back from both formats.
func TestColumnarFilesReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var bs []*batch.Batch
		var want []string
		for range rapid.IntRange(0, 4).Draw(t, "batches") {
			b, rows := anyBatch(t)
			bs = append(bs, b)
			for _, row := range rows {
				cells := make([]string, len(row))
				for i, v := range row {
					cells[i] = columnarText(v)
				}
				want = append(want, strings.Join(cells, "|"))
			}
		}
		data, _ := write(t, Arrow, anyColumns, Options{}, bs...)
		if _, rows := readArrow(t, data); strings.Join(rows, "\n") != strings.Join(want, "\n") {
			t.Fatalf("arrow: %q, want %q", rows, want)
		}
		data, _ = write(t, Parquet, anyColumns, Options{}, bs...)
		if _, rows := readParquet(t, data); strings.Join(rows, "\n") != strings.Join(want, "\n") {
			t.Fatalf("parquet: %q, want %q", rows, want)
		}
	})
}

func columnarText(v types.Value) string {
	switch {
	case v.IsNull:
		return "NULL"
	case v.Type == types.Boolean:
		return fmt.Sprint(v.I != 0)
	case v.Type == types.Double:
		a := array.NewFloat64Builder(memory.DefaultAllocator)
		a.Append(v.F)
		return a.NewFloat64Array().ValueStr(0)
	case v.Type == types.Varchar:
		return strings.ToValidUTF8(v.S, string(utf8.RuneError))
	}
	return fmt.Sprint(v.I)
}

// What is held back is bounded, however small or large the batches are.
func TestColumnarFilesAreStreamed(t *testing.T) {
	for _, f := range []Format{Arrow, Parquet} {
		rows, cols := callBatch()
		var out counter
		r := newRenderer(f, &out, cols, Options{})
		most := 0
		for range 400 {
			before := out.n
			if err := r.Rows(rows, false); err != nil {
				t.Fatal(err)
			}
			most = max(most, out.n-before)
		}
		before := out.n
		if err := r.End(); err != nil {
			t.Fatal(err)
		}
		if before == 0 || out.n-before > most+1<<16 {
			t.Errorf("%s: %d bytes of %d are written at the end, and at most %d before it at a time", f, out.n-before, out.n, most)
		}
	}
}

// counter counts what is written.
type counter struct{ n int }

func (c *counter) Write(b []byte) (int, error) { c.n += len(b); return len(b), nil }

// full is a disk that becomes full.
type full struct{ room int }

var errFull = errors.New("no space left on device")

func (f *full) Write(b []byte) (int, error) {
	if f.room -= len(b); f.room < 0 {
		return 0, errFull
	}
	return len(b), nil
}

// Wherever a disk becomes full, every format returns that error.
func TestFullDiskIsAnError(t *testing.T) {
	cols, rows := stackRows()
	for _, f := range Formats {
		var whole bytes.Buffer
		err := renderTo(f, &whole, cols, rows)
		if err != nil {
			t.Errorf("%s: %v", f, err)
		}
		for _, room := range []int{0, whole.Len() / 2, whole.Len() - 1} {
			if err := renderTo(f, &full{room}, cols, rows); !errors.Is(err, errFull) {
				t.Errorf("%s, %d bytes of %d: %v", f, room, whole.Len(), err)
			}
		}
	}
}

func renderTo(f Format, w interface{ Write([]byte) (int, error) }, cols []wire.Column, b *batch.Batch) error {
	r, err := New(f, w, cols, Options{})
	if err != nil {
		return err
	}
	if err := r.Rows(b, false); err != nil {
		return err
	}
	return r.End()
}

package render

import (
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
	"endoscope/server/wire/columnar"
)

// arrowRenderer writes an Arrow IPC file (also called Feather), with LZ4 compression:
//
//	BIGINT   int64     VARCHAR    utf8               LIST      utf8, arrow.json
//	DOUBLE   double    TIMESTAMP  timestamp[ns, UTC]  ENCODING  utf8, its text
//	BOOLEAN  bool      DURATION   duration[ns]        BYTES     binary
//
// The file ends with an index of its records: readers reject one that was cut off.
type arrowRenderer struct {
	records
	file *ipc.FileWriter
}

func init() {
	define(Arrow, implementation{endings: []string{".arrow", ".feather"}, binary: true, single: true,
		new: func(w io.Writer, cols []wire.Column, o Options) (Renderer, error) { return newArrow(w, cols, o) }})
}

func newArrow(w io.Writer, cols []wire.Column, o Options) (*arrowRenderer, error) {
	r := &arrowRenderer{records: *newRecords(cols, &o.About, nil)}
	file, err := ipc.NewFileWriter(w, ipc.WithSchema(r.schema), ipc.WithLZ4(), ipc.WithCompressConcurrency(1))
	if err != nil {
		return nil, err
	}
	r.file = file
	r.write = func(rec arrow.RecordBatch) error { return r.file.Write(rec) }
	return r, nil
}

func (r *arrowRenderer) End() error {
	if err := r.record(); err != nil {
		return err
	}
	return r.file.Close()
}

// Limits of a record: batches are held back until one is reached.
const (
	recordRows    = 1 << 14
	recordLists   = 1 << 10 // rows, if the size of a row is not known
	recordBytes   = 8 << 20
	recordBatches = 256
)

// records joins the batches of a result to Arrow records, for files. Nothing is shown before
// the end, so that rows wait until there are enough of them.
type records struct {
	machine
	encoder *columnar.Encoder
	schema  *arrow.Schema
	most    int // rows of a record
	write   func(arrow.RecordBatch) error

	held        []*batch.Batch
	rows, bytes int
}

// newRecords returns records in the schema of package columnar, in which LIST is arrow.json;
// types of the same size may be replaced by others.
func newRecords(cols []wire.Column, a *About, replace map[types.Type]arrow.DataType) *records {
	r := &records{encoder: columnar.NewEncoder(cols, columnar.Plain), most: recordRows}
	fields := append([]arrow.Field(nil), r.encoder.Schema().Fields()...)
	names := uniqueNames(cols)
	for i, c := range cols {
		fields[i].Name = names[i]
		if c.Type.Physical() == types.PhysAny {
			r.most = recordLists
		}
		if t := replace[c.Type]; t != nil {
			fields[i].Type = t
		}
		if c.Type == types.List {
			fields[i].Type, _ = extensions.NewJSONType(arrow.BinaryTypes.String) // fails for other types only
		}
	}
	about := arrow.NewMetadata([]string{"endoscope.query", "endoscope.target"}, []string{a.Query, a.target()})
	r.schema = arrow.NewSchema(fields, &about)
	return r
}

// Rows holds rows back, or writes a record of all that are held.
func (r *records) Rows(b *batch.Batch, preview bool) error {
	if preview || b.Len() == 0 {
		return nil
	}
	r.held = append(r.held, b.Retain())
	r.rows += b.Len()
	r.bytes += r.encoder.Bytes(b)
	if r.rows < r.most && r.bytes < recordBytes && len(r.held) < recordBatches {
		return nil
	}
	return r.record()
}

// record writes the rows that are held.
func (r *records) record() error {
	if len(r.held) == 0 {
		return nil
	}
	plain := r.encoder.Record(r.held)
	columns := make([]arrow.Array, plain.NumCols())
	for i, c := range plain.Columns() {
		switch t := r.schema.Field(i).Type.(type) {
		case arrow.ExtensionType:
			columns[i] = array.NewExtensionArrayWithStorage(t, c)
		default:
			d := c.Data()
			columns[i] = array.MakeFromData(array.NewData(t, d.Len(), d.Buffers(), nil, d.NullN(), d.Offset()))
		}
	}
	err := r.write(array.NewRecordBatch(r.schema, columns, plain.NumRows()))
	for _, b := range r.held {
		b.Release()
	}
	clear(r.held)
	r.held, r.rows, r.bytes = r.held[:0], 0, 0
	return err
}

// Remark implements Remarker.
func (r *records) Remark() string {
	switch n := r.encoder.Altered(); n {
	case 0:
		return ""
	case 1:
		return "1 text was not UTF-8: its bytes that are not are U+FFFD"
	default:
		return fmt.Sprintf("%d texts were not UTF-8: their bytes that are not are U+FFFD", n)
	}
}

package render

import (
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"endoscope/planner/types"
	"endoscope/server/wire"
)

// Limits of a row group, which is in memory until it is complete.
const (
	groupRows  = 1 << 17
	groupBytes = 32 << 20
)

// parquetRenderer writes a Parquet file with zstd compression. Types are those of an Arrow
// file, except that Parquet has no durations: DURATION is INT64, in ns. LIST is JSON.
// TIMESTAMP is in UTC, but not marked as an instant: DuckDB cuts those to microseconds.
//
// The file ends with an index of its row groups: readers reject one that was cut off.
type parquetRenderer struct {
	records
	about       About
	file        *pqarrow.FileWriter
	rows, bytes int // of the row group
}

func init() {
	define(Parquet, implementation{endings: []string{".parquet"}, binary: true, single: true,
		new: func(w io.Writer, cols []wire.Column, o Options) (Renderer, error) { return newParquet(w, cols, o) }})
}

func newParquet(w io.Writer, cols []wire.Column, o Options) (*parquetRenderer, error) {
	r := &parquetRenderer{about: o.About, records: *newRecords(cols, &o.About, map[types.Type]arrow.DataType{
		types.Duration:  arrow.PrimitiveTypes.Int64,
		types.Timestamp: &arrow.TimestampType{Unit: arrow.Nanosecond},
	})}
	properties := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd), parquet.WithMaxRowGroupLength(groupRows), parquet.WithStats(true))
	file, err := pqarrow.NewFileWriter(r.schema, struct{ io.Writer }{w}, properties, pqarrow.DefaultWriterProps())
	if err != nil {
		return nil, err
	}
	r.file = file
	about := r.schema.Metadata()
	for i, key := range about.Keys() {
		if err := file.AppendKeyValueMetadata(key, about.Values()[i]); err != nil {
			return nil, err
		}
	}
	for i, c := range cols {
		if c.Type == types.Duration {
			if err := file.AppendKeyValueMetadata("endoscope.unit."+r.schema.Field(i).Name, "ns"); err != nil {
				return nil, err
			}
		}
	}
	r.write = r.add
	return r, nil
}

// add writes a record to the row group, and begins another one if that is full.
func (r *parquetRenderer) add(rec arrow.RecordBatch) error {
	if r.rows >= groupRows || r.bytes >= groupBytes {
		if err := r.file.NewBufferedRowGroupChecked(); err != nil {
			return err
		}
		r.rows, r.bytes = 0, 0
	}
	r.rows += int(rec.NumRows())
	for _, c := range rec.Columns() {
		r.bytes += int(c.Data().SizeInBytes())
	}
	return r.file.WriteBuffered(rec)
}

func (r *parquetRenderer) End() error {
	if err := r.record(); err != nil {
		return err
	}
	if footer := r.about.footer(); footer != "" {
		if err := r.file.AppendKeyValueMetadata("endoscope.result", footer); err != nil {
			return err
		}
	}
	return r.file.Close()
}

package render

import (
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"endoscope/server/wire"
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

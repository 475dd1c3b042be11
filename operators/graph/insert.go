package graph

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// insert writes rows to a file, which is created and known to be writable from the first
// call on, and emits one row at the end: the number of rows written. Written rows are
// flushed to the file at the end and, as signals arrive, every second.
type insert struct {
	out    operators.Output
	path   string
	add    bool // append to the existing file
	fields []types.Field
	create func(path string) (io.WriteCloser, error)
	row    func(buf []byte, b *batch.Batch, row int) []byte
	header []byte

	file    io.WriteCloser // nil: not open
	w       *bufio.Writer
	buf     []byte
	rows    int64
	now     func() time.Time
	flushed time.Time
}

func newInsert(n *plan.Insert, down operators.Operator, create func(string) (io.WriteCloser, error)) (*insert, error) {
	f := &insert{out: operators.Output{To: down}, path: n.Path, add: n.Append, fields: n.Input.Schema().Fields, create: create, now: time.Now}
	names := make([]string, len(f.fields))
	for i := range f.fields {
		names[i] = f.fields[i].Name
	}
	switch strings.ToLower(filepath.Ext(n.Path)) {
	case ".csv":
		f.header, f.row = csvHeader(names), appendCSV
	case ".jsonl":
		f.row = jsonRows(names)
	default:
		return nil, plan.Errorf(-1, -1, "cannot write '%s'", n.Path).WithHint("INSERT INTO file writes '.csv' and '.jsonl'")
	}
	return f, nil
}

// open creates the file. That is delayed to the first call, when the query is armed, so
// that a rejected statement leaves no file behind.
func (f *insert) open() error {
	if f.file != nil {
		return nil
	}
	file, empty, err := f.openFile()
	if err != nil {
		return f.failed(err)
	}
	f.file, f.w, f.flushed = file, bufio.NewWriterSize(file, 1<<16), f.now()
	if empty {
		_, err = f.w.Write(f.header)
	}
	return f.failed(err)
}

func (f *insert) openFile() (file io.WriteCloser, empty bool, err error) {
	if !f.add {
		file, err = f.create(f.path)
		return file, true, err
	}
	to, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return nil, false, err
	}
	info, err := to.Stat()
	if err != nil {
		to.Close()
		return nil, false, err
	}
	return to, info.Size() == 0, nil
}

// failed converts a system error about the file to a user error.
func (f *insert) failed(err error) error {
	if err == nil {
		return nil
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return plan.Errorf(-1, -1, "cannot write '%s': %v", f.path, err)
}

func (f *insert) Push(_ context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	if err := f.open(); err != nil {
		return f.out.Status, err
	}
	for _, r := range batch.RowsOf(b) {
		f.buf = f.row(f.buf[:0], b, int(r))
		if _, err := f.w.Write(f.buf); err != nil {
			return f.out.Status, f.failed(err)
		}
	}
	f.rows += int64(b.Len())
	return f.out.Status, nil
}

// Signal forwards signals that do not concern rows; those that do, or complete rows, end
// here.
func (f *insert) Signal(ctx context.Context, _ int, s operators.Signal) (operators.Status, error) {
	if err := f.open(); err != nil {
		return f.out.Status, err
	}
	if now := f.now(); now.Sub(f.flushed) >= time.Second {
		f.flushed = now
		if err := f.w.Flush(); err != nil {
			return f.out.Status, f.failed(err)
		}
	}
	if s.Kind == operators.Flush {
		return f.out.Status, nil
	}
	return f.out.Signal(ctx, s)
}

func (f *insert) Close(ctx context.Context, _ int) error {
	if err := f.open(); err != nil {
		return err
	}
	err := f.w.Flush()
	if e := f.abandon(); err == nil {
		err = e
	}
	if err != nil {
		return f.failed(err)
	}
	b := batch.New(plan.InsertSchema.Types())
	defer b.Release()
	b.AppendRow(types.Int(f.rows))
	if _, err := f.out.Push(ctx, b); err != nil {
		return err
	}
	return f.out.Close(ctx)
}

// abandon closes the file in its current state.
func (f *insert) abandon() error {
	if f.file == nil {
		return nil
	}
	file := f.file
	f.file = nil
	return file.Close()
}

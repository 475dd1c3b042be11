package replay

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"endoscope/planner/plan"
	"endoscope/planner/types"

	"golang.org/x/sys/unix"
)

// SampleRows is the number of rows that determine a file's columns and types.
const SampleRows = 1000

// maxColumns limits the columns of a file: each takes memory in every batch.
const maxColumns = 2000

func tooManyColumns(f *os.File) error {
	return plan.Errorf(-1, -1, "%s has more than %d columns", f.Name(), maxColumns)
}

// timeColumn is the column of event time, if a file has it and it parses as
// time; otherwise lineColumn is.
const (
	timeColumn = "timestamp"
	lineColumn = "line"
)

// timeFormat is the format of a file's TIMESTAMP column.
type timeFormat uint8

const (
	rfc3339 timeFormat = iota
	nanoseconds
	seconds
)

// layout is the structure of a file, from its first rows.
type layout struct {
	schema  types.Schema // with the line number as last column, if that is event time
	formats []timeFormat
	line    bool // event time is the line number
}

// Describe returns the columns of a .csv or .jsonl file.
//
// A column is BIGINT, UBIGINT, DOUBLE, BOOLEAN or (RFC 3339) TIMESTAMP if all its
// values in the first SampleRows rows are, else VARCHAR; integers too large for both
// are VARCHAR rather than inexact. JSON strings are never numbers. The column
// `timestamp` may also hold integers, which are ns since the epoch, or numbers
// with a fraction, which are seconds. Where it is a TIMESTAMP it is event time.
// Else that is an extra BIGINT column, `line` (`line_number` if the file has a
// `line`): the number of the line on which the row begins, from 1, the header
// of a CSV file included.
//
// Refusals are *plan.Error without a place.
func Describe(path string) (types.Schema, error) {
	f, err := open(path)
	if err != nil {
		return types.Schema{}, err
	}
	defer f.Close()
	l, err := discover(f)
	return l.schema, err
}

// open opens a file to be replayed. A FIFO or device is refused without opening
// it: it cannot be read twice, and opening it may block or have effects.
func open(path string) (*os.File, error) {
	if ext := filepath.Ext(path); ext != ".csv" && ext != ".jsonl" {
		return nil, plan.Errorf(-1, -1, "%s: a file must be called .csv or .jsonl", path)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, plan.Errorf(-1, -1, "%s: no such file", path)
	case errors.Is(err, fs.ErrPermission):
		return nil, plan.Errorf(-1, -1, "%s: permission denied", path)
	case err != nil:
		return nil, plan.Errorf(-1, -1, "%s cannot be opened: %v", path, reason(err))
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() {
		return f, nil
	}
	f.Close()
	switch {
	case err != nil:
		return nil, plan.Errorf(-1, -1, "%s cannot be read: %v", path, reason(err))
	case info.IsDir():
		return nil, plan.Errorf(-1, -1, "%s is a directory", path)
	}
	return nil, plan.Errorf(-1, -1, "%s is not a regular file", path)
}

// reason returns the system's part of an error, without the operation and path.
func reason(err error) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// records reads the rows of a file.
type records interface {
	// next returns the cells of the next row, by column of the file; they are
	// valid until the next call. The error is io.EOF after the last row.
	next() ([]cell, error)
	// line returns the line on which that row begins.
	line() int64
	// pending reports whether faults has something to report.
	pending() bool
	// faults reports what did not fit since the last call.
	faults(report func(f fault))
}

// fault is data of a file that did not fit.
type fault struct {
	cause string
	n     uint64
	row   bool // whole rows were lost
}

// discover reads the first rows of f, from its current position.
func discover(f *os.File) (*layout, error) {
	var names []string
	var kinds []*inference
	var err error
	if filepath.Ext(f.Name()) == ".csv" {
		names, kinds, err = sampleCSV(f)
	} else {
		names, kinds, err = sampleJSON(f)
	}
	if err != nil {
		var refusal *plan.Error
		if !errors.As(err, &refusal) {
			err = plan.Errorf(-1, -1, "%s: %v", f.Name(), reason(err))
		}
		return &layout{}, err
	}
	l := &layout{schema: types.Schema{Time: -1}}
	for i, name := range names {
		t, format := kinds[i].result(name == timeColumn)
		if name == timeColumn && t == types.Timestamp {
			l.schema.Time = i
		}
		l.schema.Fields = append(l.schema.Fields, types.Field{Name: name, Type: t})
		l.formats = append(l.formats, format)
	}
	if l.schema.Time < 0 {
		l.line, l.schema.Time = true, len(names)
		name := lineColumn
		for l.schema.Index(name) >= 0 {
			name += "_number"
		}
		l.schema.Fields = append(l.schema.Fields, types.Field{Name: name, Type: types.Bigint})
		l.formats = append(l.formats, rfc3339)
	}
	return l, nil
}

func sampleCSV(f *os.File) (names []string, kinds []*inference, err error) {
	r := newCSVReader(f)
	header, err := r.next()
	if err == io.EOF {
		return nil, nil, plan.Errorf(-1, -1, "%s is empty: a CSV file begins with the names of its columns", f.Name())
	}
	if err != nil {
		return nil, nil, err
	}
	if len(header) > maxColumns {
		return nil, nil, tooManyColumns(f)
	}
	if r.unclosed {
		return nil, nil, plan.Errorf(-1, -1, "%s: a quote of its header is not closed", f.Name())
	}
	seen := map[string]bool{}
	for i, field := range header {
		name := strings.TrimSpace(string(field))
		if name == "" {
			name = fmt.Sprintf("column%d", i+1)
		}
		if seen[name] {
			return nil, nil, plan.Errorf(-1, -1, "%s has two columns called %s", f.Name(), name)
		}
		seen[name] = true
		names, kinds = append(names, name), append(kinds, newInference())
	}
	rows := newCSVRecords(r, len(names))
	for range SampleRows {
		cells, err := rows.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		for i, c := range cells {
			kinds[i].observe(c)
		}
	}
	return names, kinds, nil
}

func sampleJSON(f *os.File) (names []string, kinds []*inference, err error) {
	l := newLines(f)
	index := map[string]int{}
	var o object
	good, bad := 0, int64(0)
	for good < SampleRows {
		line, err := l.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		if blank(line) {
			continue
		}
		if !valid(&o, line) {
			if bad == 0 {
				bad = l.number
			}
			continue
		}
		good++
		o.open(line)
		for {
			key, value, more, _ := o.next()
			if !more {
				break
			}
			i, known := index[string(key)]
			if !known {
				if i = len(names); i == maxColumns {
					return nil, nil, tooManyColumns(f)
				}
				index[string(key)] = i
				names, kinds = append(names, string(key)), append(kinds, newInference())
			}
			kinds[i].observe(value)
		}
	}
	if good == 0 && bad > 0 {
		return nil, nil, plan.Errorf(-1, -1, "%s: line %d is not a JSON object", f.Name(), bad)
	}
	return names, kinds, nil
}

// valid reports whether a line is a JSON object.
func valid(o *object, line []byte) bool {
	if !o.open(line) {
		return false
	}
	for {
		_, _, more, ok := o.next()
		if !more {
			return ok
		}
	}
}

// inference narrows down the type common to all values of a column.
type inference struct {
	seen                                           bool
	integer, unsigned, float, boolean, time, epoch bool // still possible types
}

func newInference() *inference {
	return &inference{integer: true, unsigned: true, float: true, boolean: true, time: true, epoch: true}
}

func (t *inference) observe(c cell) {
	if c.kind == absent {
		return
	}
	t.seen = true
	isNumber := c.kind == plain || c.kind == number
	if isInteger := isNumber && integerLike(c.text); t.integer || t.unsigned || t.float {
		_, fits := parseInt(c.text)
		t.integer = t.integer && isInteger && fits
		if t.unsigned {
			_, t.unsigned = parseUint(c.text)
			t.unsigned = t.unsigned && isInteger
		}
		_, reads := parseFloat(c.text)
		t.float = t.float && isNumber && reads && (!isInteger || fits)
	}
	if t.boolean {
		_, reads := parseBool(c.text)
		t.boolean = reads && (c.kind == plain || c.kind == boolean)
	}
	if t.time {
		_, t.time = parseTime(c.text)
		t.time = t.time && (c.kind == plain || c.kind == quoted)
	}
	if t.epoch {
		_, t.epoch = parseSeconds(c.text)
		t.epoch = t.epoch && isNumber
	}
}

// result returns the column's type; timestamp says that it has that name.
func (t *inference) result(timestamp bool) (types.Type, timeFormat) {
	switch {
	case !t.seen:
		return types.Varchar, rfc3339
	case t.time:
		return types.Timestamp, rfc3339
	case timestamp && t.integer:
		return types.Timestamp, nanoseconds
	case timestamp && t.epoch:
		return types.Timestamp, seconds
	case t.integer:
		return types.Bigint, rfc3339
	case t.unsigned:
		return types.Ubigint, rfc3339
	case t.float:
		return types.Double, rfc3339
	case t.boolean:
		return types.Boolean, rfc3339
	}
	return types.Varchar, rfc3339
}

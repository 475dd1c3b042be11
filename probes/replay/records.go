package replay

import (
	"bytes"
	"fmt"
	"io"
)

// newRecords reads the rows of a file from its beginning.
func newRecords(r io.Reader, csv bool, names []string) (records, error) {
	if !csv {
		return newJSONRecords(r, names), nil
	}
	c := newCSVReader(r)
	if _, err := c.next(); err != nil { // the header
		return nil, err
	}
	return newCSVRecords(c, len(names)), nil
}

// tally counts faults of one kind and keeps the line of the first.
type tally struct {
	first int64
	n     uint64
}

func (t *tally) add(line int64) {
	if t.first == 0 {
		t.first = line
	}
	t.n++
}

// report reports the count since the last call. The line of the first fault is
// part of the cause, so that the cause stays the same for the whole file.
func (t *tally) report(report func(fault), row bool, what string) {
	if t.n > 0 {
		report(fault{fmt.Sprintf("%s, first on line %d", what, t.first), t.n, row})
		t.n = 0
	}
}

// csvRecords reads the rows of a CSV file with a known number of columns.
type csvRecords struct {
	reader *csvReader
	cells  []cell
	ragged tally
	torn   tally // records that the end of the file cut off
}

func newCSVRecords(r *csvReader, columns int) *csvRecords {
	return &csvRecords{reader: r, cells: make([]cell, columns)}
}

func (r *csvRecords) next() ([]cell, error) {
	fields, err := r.reader.next()
	if err != nil {
		return nil, err
	}
	if r.reader.unclosed {
		r.torn.add(r.reader.line)
		return nil, io.EOF
	}
	if len(fields) != len(r.cells) {
		r.ragged.add(r.reader.line)
		clear(r.cells)
		fields = fields[:min(len(fields), len(r.cells))]
	}
	for i, f := range fields {
		c := &r.cells[i]
		c.text = f
		if c.kind = plain; len(f) == 0 {
			c.kind = absent
		}
	}
	return r.cells, nil
}

func (r *csvRecords) line() int64 { return r.reader.line }

func (r *csvRecords) pending() bool { return r.ragged.n > 0 || r.torn.n > 0 }

func (r *csvRecords) faults(report func(fault)) {
	r.torn.report(report, true, "row with a quote that is not closed")
	r.ragged.report(report, false, fmt.Sprintf("row that has not %d fields", len(r.cells)))
}

// jsonRecords reads the rows of a JSONL file with known keys.
type jsonRecords struct {
	lines   *lines
	object  object
	names   []string
	index   map[string]int
	cells   []cell
	invalid tally
	unknown tally
}

func newJSONRecords(r io.Reader, names []string) *jsonRecords {
	j := &jsonRecords{lines: newLines(r), names: names, index: map[string]int{}, cells: make([]cell, len(names))}
	for i, name := range names {
		j.index[name] = i
	}
	return j
}

func (r *jsonRecords) next() ([]cell, error) {
	for {
		line, err := r.lines.next()
		if err != nil {
			return nil, err
		}
		if blank(line) {
			continue
		}
		unknown, ok := r.scan(line)
		if !ok {
			r.invalid.add(r.lines.number)
			continue
		}
		for range unknown {
			r.unknown.add(r.lines.number)
		}
		return r.cells, nil
	}
}

// scan fills cells from a line and counts the members that have no column.
func (r *jsonRecords) scan(line []byte) (unknown int, ok bool) {
	clear(r.cells)
	if !r.object.open(line) {
		return 0, false
	}
	for expected := 0; ; expected++ {
		key, value, more, ok := r.object.next()
		if !more {
			return unknown, ok
		}
		// Most writers use the same order of keys in all rows.
		if expected < len(r.names) && string(key) == r.names[expected] {
			r.cells[expected] = value
		} else if i, known := r.index[string(key)]; known {
			r.cells[i] = value
			expected = i
		} else {
			unknown++
		}
	}
}

func (r *jsonRecords) line() int64 { return r.lines.number }

func (r *jsonRecords) pending() bool { return r.invalid.n > 0 || r.unknown.n > 0 }

func (r *jsonRecords) faults(report func(fault)) {
	r.invalid.report(report, true, "line that is no JSON object")
	r.unknown.report(report, false, fmt.Sprintf("key that the first %d rows do not have", SampleRows))
}

func blank(line []byte) bool { return len(bytes.TrimLeft(line, " \t\r")) == 0 }

package replay

import (
	"bytes"
	"fmt"
	"io"
)

// csvReader reads the records of a CSV file. It allocates nothing per record.
type csvReader struct {
	lines   *lines
	line    int64    // line on which the last record began
	fields  [][]byte // of that record
	scratch []byte   // fields that are not contiguous in the line
	ends    []int    // of the fields in scratch
	// unclosed: the file ended within a quoted field of the last record.
	unclosed bool
}

func newCSVReader(r io.Reader) *csvReader { return &csvReader{lines: newLines(r)} }

// next returns the fields of the next record, valid until the next call. Empty
// lines are no records.
func (c *csvReader) next() ([][]byte, error) {
	line, err := c.lines.next()
	for err == nil && len(line) == 0 {
		line, err = c.lines.next()
	}
	if err != nil {
		return nil, err
	}
	c.line = c.lines.number
	if bytes.IndexByte(line, '"') >= 0 {
		return c.quoted(line)
	}
	c.fields = c.fields[:0]
	for {
		i := bytes.IndexByte(line, ',')
		if i < 0 {
			c.fields = append(c.fields, line)
			return c.fields, nil
		}
		c.fields = append(c.fields, line[:i])
		line = line[i+1:]
	}
}

// quoted parses a record with quotes, which may span several lines.
func (c *csvReader) quoted(line []byte) ([][]byte, error) {
	c.scratch, c.ends = c.scratch[:0], c.ends[:0]
	for more := true; more; {
		var err error
		if len(line) > 0 && line[0] == '"' {
			line, more, err = c.quotedField(line[1:])
		} else {
			var field []byte
			field, line, more = bytes.Cut(line, []byte{','})
			c.scratch = append(c.scratch, field...)
		}
		if err != nil {
			return nil, err
		}
		c.ends = append(c.ends, len(c.scratch))
	}
	c.fields = c.fields[:0]
	start := 0
	for _, end := range c.ends {
		c.fields = append(c.fields, c.scratch[start:end])
		start = end
	}
	return c.fields, nil
}

// quotedField adds to scratch a field whose opening quote was consumed, and
// returns what follows it and whether that is another field. A quote that
// neither ends the field nor is doubled is literal. The end of the file ends
// the field, but such a record is not whole: unclosed.
func (c *csvReader) quotedField(line []byte) (rest []byte, more bool, err error) {
	for {
		i := bytes.IndexByte(line, '"')
		if i < 0 {
			c.scratch = append(c.scratch, line...)
			if c.lines.terminated {
				c.scratch = append(c.scratch, '\n')
			}
			if len(c.scratch) > MaxLine {
				return nil, false, fmt.Errorf("the record on line %d is longer than %d MiB: is a quote not closed?", c.line, MaxLine>>20)
			}
			if line, err = c.lines.next(); err == io.EOF {
				c.unclosed = true
				return nil, false, nil
			} else if err != nil {
				return nil, false, err
			}
			continue
		}
		c.scratch = append(c.scratch, line[:i]...)
		line = line[i+1:]
		switch {
		case len(line) == 0:
			return nil, false, nil
		case line[0] == ',':
			return line[1:], true, nil
		case line[0] == '"':
			line = line[1:]
		}
		c.scratch = append(c.scratch, '"')
	}
}

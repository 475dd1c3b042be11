package render

import (
	"fmt"
	"io"
	"strings"

	"endoscope/operators/batch"
	"endoscope/server/wire"
)

// Renderer writes one result. Its methods are called from one goroutine; each
// writes all that is due before it returns, so that a reader of a pipe sees a
// row as soon as it is there. Errors are those of the writer.
type Renderer interface {
	// Rows shows the rows of b, which is the caller's again on return. Rows of
	// a preview are shown only where they can be repainted.
	Rows(b *batch.Batch, preview bool) error
	// Flush ends an emitted result (a window, an interval of EMIT EVERY), or a
	// preview of one.
	Flush(preview bool) error
	// Tick shows what was held back to align it. It is called a few times a
	// second.
	Tick() error
	// Clear takes a preview off the screen before something else is written.
	Clear() error
	// End ends the whole result.
	End() error
}

// Format is how rows are written.
type Format string

// The formats.
const (
	Table    Format = "table"
	CSV      Format = "csv"
	JSON     Format = "json"
	JSONL    Format = "jsonl"
	Markdown Format = "markdown"
)

// Formats lists the formats in the order in which help shows them.
var Formats = []Format{Table, CSV, JSON, JSONL, Markdown}

// ParseFormat returns the format called name.
func ParseFormat(name string) (Format, error) {
	for _, f := range Formats {
		if string(f) == strings.ToLower(name) {
			return f, nil
		}
	}
	return "", fmt.Errorf("there is no format %q", name)
}

// FormatOf guesses a format by a file's name, with table for those that say
// nothing.
func FormatOf(path string) Format {
	dot := strings.LastIndexByte(path, '.')
	if dot < 0 {
		return Table
	}
	switch strings.ToLower(path[dot:]) {
	case ".csv":
		return CSV
	case ".json":
		return JSON
	case ".jsonl", ".ndjson":
		return JSONL
	case ".md":
		return Markdown
	}
	return Table
}

// Options are what a renderer needs to know of the place it writes to. The
// zero value is a file or a pipe.
type Options struct {
	Expanded bool                       // table: a line for each column instead of a row
	Color    bool                       // table: SGR sequences may be used
	Size     func() (width, height int) // table: of the terminal, in cells; nil: not a terminal
}

// New returns a renderer of rows with the given columns.
func New(f Format, w io.Writer, cols []wire.Column, o Options) Renderer {
	switch f {
	case CSV:
		return newCSV(w, cols)
	case JSON:
		return newJSON(w, cols)
	case JSONL:
		return newJSONL(w, cols)
	case Markdown:
		return newMarkdown(w, cols)
	}
	return newTable(w, cols, o)
}

// machine is what the renderers that write every row at once, and know neither
// results nor previews, have in common.
type machine struct {
	w   io.Writer
	buf []byte // reused from batch to batch
}

func (m *machine) flush() error {
	if len(m.buf) == 0 {
		return nil
	}
	_, err := m.w.Write(m.buf)
	m.buf = m.buf[:0]
	return err
}

// Flush does nothing: rows are written as they come.
func (m *machine) Flush(bool) error { return nil }

// Tick does nothing: rows are written as they come.
func (m *machine) Tick() error { return nil }

// Clear does nothing: previews are not shown.
func (m *machine) Clear() error { return nil }

package render

import (
	"fmt"
	"io"
	"strings"

	"endoscope/operators/batch"
	"endoscope/server/wire"
)

// Renderer writes one result. Its methods are called from one goroutine. Each writes
// everything that is due before it returns, so that the reader of a pipe sees a row
// immediately. Errors are those of the writer.
type Renderer interface {
	// Rows shows the rows of b, which stays the caller's. Rows of a preview are shown
	// only where they can be repainted.
	Rows(b *batch.Batch, preview bool) error
	// Flush ends an emitted result (a window, an interval of EMIT EVERY), or a
	// preview of one.
	Flush(preview bool) error
	// Tick shows rows held back for alignment. It is called a few times per second.
	Tick() error
	// Clear removes a preview from the screen before something else is written.
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

// Formats lists the formats in the order of the help text.
var Formats = []Format{Table, CSV, JSON, JSONL, Markdown}

// ParseFormat returns the format called name.
func ParseFormat(name string) (Format, error) {
	for _, f := range Formats {
		if string(f) == strings.ToLower(name) {
			return f, nil
		}
	}
	return "", fmt.Errorf("unknown format %q", name)
}

// FormatOf returns the format for a file name; Table if the name implies none.
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

// Options describe the destination of a renderer. The zero value is a file or a pipe.
type Options struct {
	Expanded bool                       // table: one line per column instead of a row
	Color    bool                       // table: SGR sequences may be used
	Size     func() (width, height int) // table: terminal size in cells; nil: not a terminal
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

// machine is the common part of renderers that write each row at once and ignore
// results and previews.
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

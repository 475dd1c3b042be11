package render

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

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
	// Tick shows rows held back for alignment. It is called a fraction of a second after rows.
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
	Raw      Format = "raw"

	Arrow      Format = "arrow"
	Parquet    Format = "parquet"
	Pprof      Format = "pprof"
	Folded     Format = "folded"
	Speedscope Format = "speedscope"
	Perfetto   Format = "perfetto"
	SVG        Format = "svg"
	HTML       Format = "html"
)

// Formats lists the formats in the order of the help text.
var Formats = []Format{Table, CSV, JSON, JSONL, Markdown, Raw, Arrow, Parquet, Pprof, Folded, Speedscope, Perfetto, SVG, HTML}

// implementation is what the file of a format defines.
type implementation struct {
	endings []string // of files that have the format, in lower case
	binary  bool     // a terminal cannot show it
	single  bool     // a file holds one result
	// new returns a renderer, or an error that names the columns that the format needs.
	new func(w io.Writer, cols []wire.Column, o Options) (Renderer, error)
}

var implementations = map[Format]implementation{}

// define registers the implementation of a format. Each format's file calls it in init.
func define(f Format, i implementation) { implementations[f] = i }

// ParseFormat returns the format called name.
func ParseFormat(name string) (Format, error) {
	f := Format(strings.ToLower(name))
	if !slices.Contains(Formats, f) {
		return "", fmt.Errorf("unknown format %q", name)
	}
	return f, nil
}

// Names lists the formats, for a hint.
func Names() string {
	all := make([]string, len(Formats))
	for i, f := range Formats {
		all[i] = string(f)
	}
	return strings.Join(all[:len(all)-1], ", ") + " or " + all[len(all)-1]
}

// FormatOf returns the format for a file name; Table, false if the name implies none. The
// longest ending counts: x.speedscope.json is not JSON.
func FormatOf(path string) (f Format, known bool) {
	path = strings.ToLower(filepath.Base(path))
	f, longest := Table, ""
	for of, i := range implementations {
		for _, ending := range i.endings {
			if strings.HasSuffix(path, ending) && len(ending) > len(longest) {
				f, longest = of, ending
			}
		}
	}
	return f, longest != ""
}

// Binary reports whether a terminal cannot show a format.
func Binary(f Format) bool { return implementations[f].binary }

// Single reports whether a file of the format holds one result.
func Single(f Format) bool { return implementations[f].single }

// Endings lists the endings of file names that imply a format.
func Endings() (all []string) {
	for _, f := range Formats {
		all = append(all, implementations[f].endings...)
	}
	return all
}

// Options describe the destination of a renderer. The zero value is a file or a pipe.
type Options struct {
	Expanded bool                       // table: one line per column instead of a row
	Auto     bool                       // table: Expanded if a row is wider than the terminal
	InPlace  bool                       // table: an emitted result takes the place of the one before
	Color    bool                       // table: SGR sequences may be used
	Size     func() (width, height int) // table: terminal size in cells; nil: not a terminal
	About    About
}

// About says what a result is: for headings of pictures, and for what files say about
// themselves.
type About struct {
	Query  string
	Target func() string // nil: unknown
	Start  time.Time
	// Footer returns the last line of the result: rows, time and losses so far; nil: none.
	Footer func() string
	Emit   string // EVERY: each emitted result has the totals so far; CHANGES, FINAL
}

// target returns what the session observes.
func (a *About) target() string {
	if a.Target == nil {
		return ""
	}
	return a.Target()
}

// footer returns the last line of the result.
func (a *About) footer() string {
	if a.Footer == nil {
		return ""
	}
	return a.Footer()
}

// Remarker is a renderer that may have something to say about the file it has written.
type Remarker interface {
	// Remark returns a line, after End; "" if there is nothing to say.
	Remark() string
}

// misfit is a result that a format cannot represent, or an unknown format.
type misfit struct{ msg, hint string }

func misfitf(hint, format string, args ...any) error {
	return &misfit{fmt.Sprintf(format, args...), hint}
}

func (m *misfit) Error() string { return m.msg }

// Hint implements what the printer of errors asks for.
func (m *misfit) Hint() string { return m.hint }

// New returns a renderer of rows with the given columns. An unknown format is Table. The
// error says which columns the format needs, if these do not fit.
func New(f Format, w io.Writer, cols []wire.Column, o Options) (Renderer, error) {
	i, ok := implementations[f]
	if !ok {
		i = implementations[Table]
	}
	return i.new(w, cols, o)
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

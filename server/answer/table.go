package answer

import (
	"context"
	"io"
	"regexp"
	"strings"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// Table is the result of SHOW, DESCRIBE and EXPLAIN: a small wire.Result whose
// rows are in memory.
type Table struct {
	Header  []wire.Column
	Rows    [][]types.Value
	Notices []string
	next    int
	began   time.Time
}

func NewTable(columns ...wire.Column) *Table {
	return &Table{Header: columns, began: time.Now()}
}

func (r *Table) Add(vs ...types.Value) { r.Rows = append(r.Rows, vs) }

func (r *Table) Columns() []wire.Column { return r.Header }

func (r *Table) Message() string { return "" }

// Info says that the table is computed for each execution.
func (r *Table) Info() wire.Info { return wire.Info{StartsOver: true} }

func (r *Table) Stop() {}

func (r *Table) Close() error { return nil }

func (r *Table) Summary() wire.Summary {
	return wire.Summary{Rows: uint64(len(r.Rows)), Elapsed: time.Since(r.began)}
}

func (r *Table) Next(context.Context) (wire.Event, error) {
	if len(r.Notices) > 0 {
		text := r.Notices[0]
		r.Notices = r.Notices[1:]
		return wire.Event{Kind: wire.Notice, Text: text}, nil
	}
	if r.next == len(r.Rows) {
		return wire.Event{}, io.EOF
	}
	kinds := make([]types.Type, len(r.Header))
	for i, c := range r.Header {
		kinds[i] = c.Type
	}
	b := batch.New(kinds)
	for b.N < batch.MaxRows && r.next < len(r.Rows) {
		b.AppendRow(r.Rows[r.next]...)
		r.next++
	}
	return wire.Event{Kind: wire.Rows, Batch: b}, nil
}

// Text and the like return columns.
func Text(name string) wire.Column { return wire.Column{Name: name, Type: types.Varchar} }

func Number(name string) wire.Column { return wire.Column{Name: name, Type: types.Bigint} }

// AddLines adds a row for each line of a text.
func (r *Table) AddLines(text string) {
	for line := range strings.Lines(text) {
		r.Add(types.Str(strings.TrimRight(line, "\n")))
	}
}

// KeepLike keeps the rows whose first text matches a LIKE pattern, in any case.
func (r *Table) KeepLike(pattern string) {
	col := 0
	for i, c := range r.Header {
		if c.Type == types.Varchar {
			col = i
			break
		}
	}
	var b strings.Builder
	b.WriteString("(?is)^")
	for _, c := range pattern {
		switch c {
		case '%':
			b.WriteString(".*")
		case '_':
			b.WriteString(".")
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	re := regexp.MustCompile(b.String() + "$")
	var kept [][]types.Value
	for _, row := range r.Rows {
		if re.MatchString(row[col].S) {
			kept = append(kept, row)
		}
	}
	r.Rows = kept
}

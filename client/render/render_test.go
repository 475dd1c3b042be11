package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// The files of testdata show the output of each format. A command is a format with
// its options. The input is the columns (name TYPE, ...), then one row per line,
// cells separated by " ; ", and the events between rows: flush, tick, clear, preview
// (the preceding rows were a preview of a running total). ESC is shown as ␛, so that
// it does not reach the terminal that runs the test.
func TestRenderers(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			f, err := ParseFormat(d.Cmd)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			o := Options{Expanded: d.HasArg("expanded"), Color: d.HasArg("color")}
			if d.HasArg("terminal") {
				var w, h int
				d.ScanArgs(t, "terminal", &w, &h)
				o.Size = func() (int, int) { return w, h }
			}
			var out bytes.Buffer
			if err := play(f, &out, o, d.Input); err != nil {
				d.Fatalf(t, "%v", err)
			}
			return strings.ReplaceAll(out.String(), "\x1b", "␛")
		})
	})
}

// newRenderer is New for columns that fit the format.
func newRenderer(f Format, w io.Writer, cols []wire.Column, o Options) Renderer {
	r, err := New(f, w, cols, o)
	if err != nil {
		panic(err)
	}
	return r
}

// play renders a result that is described as text.
func play(f Format, out *bytes.Buffer, o Options, script string) error {
	lines := strings.Split(script, "\n")
	cols, schema, err := parseColumns(lines[0])
	if err != nil {
		return err
	}
	r := newRenderer(f, out, cols, o)
	b := batch.New(schema)
	show := func(preview bool) error {
		if b.N == 0 {
			return nil
		}
		defer func() { b = batch.New(schema) }()
		return r.Rows(b, preview)
	}
	for _, line := range lines[1:] {
		var err error
		switch line {
		case "flush":
			if err = show(false); err == nil {
				err = r.Flush(false)
			}
		case "preview":
			if err = show(true); err == nil {
				err = r.Flush(true)
			}
		case "tick":
			if err = show(false); err == nil {
				err = r.Tick()
			}
		case "clear":
			err = r.Clear()
		default:
			err = addRow(b, schema, line)
		}
		if err != nil {
			return err
		}
	}
	if err := show(false); err != nil {
		return err
	}
	return r.End()
}

func parseColumns(line string) (cols []wire.Column, schema []types.Type, err error) {
	for _, part := range strings.Split(line, ", ") {
		name, typ, _ := strings.Cut(part, " ")
		if s, err := strconv.Unquote(name); err == nil {
			name = s
		}
		t, ok := types.ParseType(typ)
		switch {
		case typ == "LIST":
			t = types.List
		case typ == "ENCODING":
			t = types.Encoding
		case !ok:
			return nil, nil, fmt.Errorf("column %q has no type", part)
		}
		cols = append(cols, wire.Column{Name: name, Type: t})
		schema = append(schema, t)
	}
	return cols, schema, nil
}

// encoded is the result of an encoder.
type encoded string

func (e encoded) String() string { return string(e) }

func addRow(b *batch.Batch, schema []types.Type, line string) error {
	cells := strings.Split(line, " ; ")
	if len(cells) != len(schema) {
		return fmt.Errorf("row %q has %d cells, want %d", line, len(cells), len(schema))
	}
	row := make([]types.Value, len(cells))
	for i, cell := range cells {
		v, err := parseCell(schema[i], strings.TrimSpace(cell))
		if err != nil {
			return fmt.Errorf("cell %q: %w", cell, err)
		}
		row[i] = v
	}
	b.AppendRow(row...)
	return nil
}

func parseCell(t types.Type, s string) (v types.Value, err error) {
	v.Type = t
	if s == "NULL" {
		return types.NullOf(t), nil
	}
	if u, unquoteErr := strconv.Unquote(s); unquoteErr == nil {
		s = u
	}
	switch t {
	case types.Boolean:
		if s == "true" {
			v.I = 1
		}
	case types.Bigint:
		v.I, err = strconv.ParseInt(s, 10, 64)
	case types.Double:
		v.F, err = strconv.ParseFloat(s, 64)
	case types.Duration:
		var d time.Duration
		d, err = time.ParseDuration(s)
		v.I = d.Nanoseconds()
	case types.Timestamp:
		var at time.Time
		at, err = time.Parse(time.RFC3339Nano, s)
		v.I = at.UnixNano()
	case types.Varchar, types.Bytes:
		v.S = s
	case types.Encoding:
		v.A = encoded(s)
	case types.List:
		var any any
		err = json.Unmarshal([]byte(s), &any)
		v = listValue(any)
	}
	return v, err
}

// listValue converts JSON to values: numbers are BIGINT, strings in the form of a
// duration are DURATION.
func listValue(x any) types.Value {
	switch x := x.(type) {
	case []any:
		vs := make([]types.Value, len(x))
		for i, e := range x {
			vs[i] = listValue(e)
		}
		return types.ListOf(vs)
	case float64:
		return types.Int(int64(x))
	case string:
		if d, err := time.ParseDuration(x); err == nil {
			return types.Dur(d.Nanoseconds())
		}
		return types.Str(x)
	case bool:
		return types.Bool(x)
	}
	return types.NullOf(types.Null)
}

package render

import (
	"bytes"
	"strings"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// textRows returns a batch with text columns.
func textRows(rows ...[]string) (*batch.Batch, []wire.Column) {
	var kinds []types.Type
	var cols []wire.Column
	for i := range rows[0] {
		name := string(rune('a' + i))
		kinds = append(kinds, types.Varchar)
		cols = append(cols, wire.Column{Name: name, Type: types.Varchar})
	}
	b := batch.New(kinds)
	for _, r := range rows {
		values := make([]types.Value, len(r))
		for i, v := range r {
			values[i] = types.Str(v)
		}
		b.AppendRow(values...)
	}
	return b, cols
}

func narrow() (int, int) { return 40, 10 }

func TestWideRowsAreExpanded(t *testing.T) {
	long := strings.Repeat("x", 30)
	for _, c := range []struct {
		name     string
		o        Options
		row      []string
		expanded bool
	}{
		{"fits", Options{Auto: true, Size: narrow}, []string{"a", "b"}, false},
		{"too wide", Options{Auto: true, Size: narrow}, []string{long, long, "c"}, true},
		{"a long text at the end", Options{Auto: true, Size: narrow}, []string{"a", strings.Repeat("y", 90)}, false},
		{"off", Options{Size: narrow}, []string{long, long, "c"}, false},
		{"a file", Options{Auto: true}, []string{long, long, "c"}, false},
	} {
		var out bytes.Buffer
		b, cols := textRows(c.row)
		r, err := New(Table, &out, cols, c.o)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Rows(b, false); err != nil {
			t.Fatal(err)
		}
		if err := r.End(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "-[ row 1 ]"); got != c.expanded {
			t.Errorf("%s: expanded is %v:\n%s", c.name, got, out.String())
		}
	}
}

// Each result of EMIT EVERY is drawn over the one before; the last one stays in full.
func TestResultsInPlace(t *testing.T) {
	var out bytes.Buffer
	var r Renderer
	for i, text := range []string{"first", "second"} {
		b, cols := textRows([]string{text, "x"}, []string{text, "y"})
		if i == 0 {
			var err error
			if r, err = New(Table, &out, cols, Options{InPlace: true, Size: narrow}); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Rows(b, false); err != nil {
			t.Fatal(err)
		}
		if err := r.Tick(); err != nil {
			t.Fatal(err)
		}
		if err := r.Flush(false); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	want := " a     | b\n-------+---\n first | x\n first | y\n\r\x1b[4A\x1b[J a      | b\n--------+---\n second | x\n second | y\n\r\x1b[4A\x1b[J a      | b\n--------+---\n second | x\n second | y\n"
	if out.String() != want {
		t.Errorf("%q\nwant %q", out.String(), want)
	}
}

func TestPlot(t *testing.T) {
	var out bytes.Buffer
	b := batch.New([]types.Type{types.Bigint})
	for i := range 20 {
		b.AppendRow(types.Int(int64(i)))
	}
	r, err := New(Plot, &out, []wire.Column{{Name: "n", Type: types.Bigint}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Rows(b, false); err != nil {
		t.Fatal(err)
	}
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) < 10 || !strings.Contains(lines[0], "19") || !strings.Contains(out.String(), "╭") {
		t.Errorf("no line from 0 to 19:\n%s", out.String())
	}
}

package render

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"endoscope/operators/batch"
	_ "endoscope/operators/optest/seeds" // fixed seeds: the same cases in every run
	"endoscope/planner/types"
	"endoscope/server/wire"
)

var anyColumns = []wire.Column{
	{Name: "s", Type: types.Varchar}, {Name: "i", Type: types.Bigint}, {Name: "d", Type: types.Duration},
	{Name: "f", Type: types.Double}, {Name: "t", Type: types.Timestamp}, {Name: "b", Type: types.Boolean},
}

// anyRow draws a row of anyColumns. Strings may be any bytes.
func anyRow(t *rapid.T) []types.Value {
	row := []types.Value{
		types.Str(string(rapid.OneOf(rapid.SliceOfN(rapid.Byte(), 0, 12),
			rapid.Map(rapid.StringN(0, 12, -1), func(s string) []byte { return []byte(s) })).Draw(t, "s"))),
		types.Int(rapid.Int64().Draw(t, "i")),
		types.Dur(rapid.Int64().Draw(t, "d")),
		types.Float(rapid.Float64().Draw(t, "f")),
		types.Time(rapid.Int64Range(-1e18, 9e18).Draw(t, "t")),
		types.Bool(rapid.Bool().Draw(t, "b")),
	}
	for i := range row {
		if rapid.IntRange(0, 7).Draw(t, "null") == 0 {
			row[i] = types.NullOf(row[i].Type)
		}
	}
	return row
}

func anyBatch(t *rapid.T) (b *batch.Batch, rows [][]types.Value) {
	schema := make([]types.Type, len(anyColumns))
	for i, c := range anyColumns {
		schema[i] = c.Type
	}
	b = batch.New(schema)
	for range rapid.IntRange(1, 8).Draw(t, "rows") {
		row := anyRow(t)
		rows = append(rows, row)
		b.AppendRow(row...)
	}
	return b, rows
}

func renderAll(t *rapid.T, f Format, o Options, b *batch.Batch) string {
	var out bytes.Buffer
	r := newRenderer(f, &out, anyColumns, o)
	if err := r.Rows(b, false); err != nil {
		t.Fatal(err)
	}
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// CSV output reads back exactly.
func TestCSVReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, rows := anyBatch(t)
		r := csv.NewReader(strings.NewReader(strings.ReplaceAll(renderAll(t, CSV, Options{}, b), "\r\n", "\r\r\n")))
		got, err := r.ReadAll() // the reader converts \r\n to \n, hence the line above
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(rows)+1 {
			t.Fatalf("%d records, want %d and a header", len(got), len(rows))
		}
		for i, row := range rows {
			for c, v := range row {
				if want := readable(v); got[i+1][c] != want {
					t.Fatalf("row %d, %s: %q, want %q", i, anyColumns[c].Name, got[i+1][c], want)
				}
			}
		}
	})
}

// readable returns v as the standard library's CSV reader should read it.
func readable(v types.Value) string {
	switch {
	case v.IsNull:
		return ""
	case v.Type == types.Timestamp:
		return time.Unix(0, v.I).UTC().Format("2006-01-02T15:04:05.000000000Z")
	case v.Type == types.Boolean:
		return strconv.FormatBool(v.I != 0)
	case v.Type == types.Double:
		return string(appendFloat(nil, v.F))
	case v.Type == types.Varchar:
		return v.S
	}
	return strconv.FormatInt(v.I, 10)
}

func TestShortestFloatReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64().Draw(t, "f")
		text := string(appendFloat(nil, f))
		if back, err := strconv.ParseFloat(text, 64); err != nil || math.Float64bits(back) != math.Float64bits(f) {
			t.Fatalf("%v is written %s and read %v, %v", f, text, back, err)
		}
	})
}

func TestJSONLReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, rows := anyBatch(t)
		d := json.NewDecoder(strings.NewReader(renderAll(t, JSONL, Options{}, b)))
		d.UseNumber()
		for i, row := range rows {
			var got struct {
				S *string
				I *json.Number
				D *json.Number
				F *float64
				T *time.Time
				B *bool
			}
			if err := d.Decode(&got); err != nil {
				t.Fatalf("row %d: %v", i, err)
			}
			if (got.S == nil) != row[0].IsNull || got.S != nil && *got.S != strings.ToValidUTF8(row[0].S, "\ufffd") && *got.S != perByte(row[0].S) {
				t.Fatalf("row %d: s is %v, want %q", i, got.S, row[0].S)
			}
			for c, n := range map[int]*json.Number{1: got.I, 2: got.D} {
				if (n == nil) != row[c].IsNull || n != nil && n.String() != strconv.FormatInt(row[c].I, 10) {
					t.Fatalf("row %d: %s is %v, want %d", i, anyColumns[c].Name, n, row[c].I)
				}
			}
			if (got.F == nil) != row[3].IsNull || got.F != nil && *got.F != row[3].F {
				t.Fatalf("row %d: f is %v, want %v", i, got.F, row[3].F)
			}
			if (got.T == nil) != row[4].IsNull || got.T != nil && got.T.UnixNano() != row[4].I {
				t.Fatalf("row %d: t is %v, want %d", i, got.T, row[4].I)
			}
			if (got.B == nil) != row[5].IsNull || got.B != nil && *got.B != (row[5].I != 0) {
				t.Fatalf("row %d: b is %v, want %v", i, got.B, row[5].I)
			}
		}
		if err := d.Decode(new(any)); err != io.EOF {
			t.Fatalf("after the last row: %v, want EOF", err)
		}
	})
}

// perByte replaces each invalid UTF-8 byte by U+FFFD; strings.ToValidUTF8 replaces
// runs of them.
func perByte(s string) string { return string([]rune(s)) }

// Whatever the names of a program are, output for people has only the renderer's
// lines and no control characters.
func TestPeopleSeeGraphicCharactersOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, rows := anyBatch(t)
		for _, f := range []Format{Table, Markdown} {
			out := renderAll(t, f, Options{}, b)
			if lines := strings.Count(out, "\n"); lines != len(rows)+2 {
				t.Fatalf("%s: %d lines for %d rows:\n%s", f, lines, len(rows), out)
			}
			for _, r := range out {
				if r != '\n' && !unicode.IsGraphic(r) {
					t.Fatalf("%s shows %U:\n%q", f, r, out)
				}
			}
			if !utf8.ValidString(out) {
				t.Fatalf("%s is no UTF-8: %q", f, out)
			}
		}
	})
}

func TestHumanDuration(t *testing.T) {
	for ns, want := range map[int64]string{
		0: "0ns", 1: "1ns", 999: "999ns", 1000: "1.00us", 1234: "1.23us", 12345: "12.3us", 123456: "123us",
		999_499: "999us", 999_500: "1.00ms", 9_996_000: "10.0ms", 99_960_000: "100ms", 999_499_999: "999ms",
		999_500_000: "1.00s", 59_949_999_999: "59.9s", 59_950_000_000: "1min00s", 83e9: "1min23s",
		3599.6e9: "1h00min", 7500e9: "2h05min", 86400e9: "1d00h", 100 * 3600e9: "4d04h",
		-1500: "-1.50us", math.MinInt64: "-106752d00h", math.MaxInt64: "106752d00h",
	} {
		if got := HumanDuration(ns); got != want {
			t.Errorf("HumanDuration(%d) = %s, want %s", ns, got, want)
		}
	}
}

func TestHumanFloat(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0", 1: "1", 0.5: "0.5", 1.0 / 3: "0.333333", 12.3456789: "12.34568", 99999.95: "99999.95",
		1234567.891: "1234567.9", 1e14: "100000000000000", 1e15: "1e+15", 1e-5: "1e-05", -2.5: "-2.5",
		math.Inf(1): "+Inf",
	} {
		if got := string(appendHumanFloat(nil, f)); got != want {
			t.Errorf("%v is shown as %s, want %s", f, got, want)
		}
	}
}

func TestMessagesKeepLinesAndTabsOnly(t *testing.T) {
	if got, want := Escape("a\x1b[2J\n  b\tc\r\n^"), "a\\x1b[2J\n  b\tc\\r\n^"; got != want {
		t.Errorf("Escape gives %q, want %q", got, want)
	}
}

func TestClipCountsCells(t *testing.T) {
	for n, want := range map[int]string{0: "", 1: "", 2: "日", 3: "日", 4: "日本", 5: "日本x", 9: "日本x"} {
		if got := string(clip([]byte("日本x"), n)); got != want {
			t.Errorf("clip to %d cells: %q, want %q", n, got, want)
		}
	}
}

func TestKeysAreUnique(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.SampledFrom([]string{"n", "n_2", "n_3", "m"}), 1, 8).Draw(t, "names")
		cols, first := make([]wire.Column, len(names)), map[string]bool{}
		for i, n := range names {
			cols[i].Name = n
		}
		seen := map[string]bool{}
		for i, key := range uniqueNames(cols) {
			if seen[key] {
				t.Fatalf("%v: key %s twice", names, key)
			}
			if !first[names[i]] && key != names[i] {
				t.Fatalf("%v: the first %s became %s", names, names[i], key)
			}
			seen[key], first[names[i]] = true, true
		}
	})
}

package replay

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"endoscope/probes"
)

// replayed describes and replays a file of these bytes; nil if it is refused.
func replayed(t *testing.T, name string, text []byte) *recorder {
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Describe(path); err != nil {
		if !strings.Contains(err.Error(), path) {
			t.Fatalf("the error is %q", err)
		}
		return nil
	} else if len(s.Fields) > maxColumns+1 || s.Time < 0 {
		t.Fatalf("%d columns, the time is %d", len(s.Fields), s.Time)
	}
	spec := fileSpec(t, path)
	src, err := New().Prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err) // Describe has accepted it
	}
	r := newRecorder(spec.Out)
	if err := src.Start(t.Context(), r, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	<-r.ended
	if err := src.Stop(); err != nil {
		t.Fatal(err)
	}
	if r.late > 0 {
		t.Fatalf("%d rows came after a watermark above them", r.late)
	}
	return r
}

// FuzzCSV compares the number of rows to that of encoding/csv, where that reads the file.
func FuzzCSV(f *testing.F) {
	f.Add([]byte("a,b\n1,2\n\n\"x\ny\",\"\"\"\"\n"))
	f.Add([]byte("\xef\xbb\xbftimestamp,n\r\n2024-02-29T12:00:00Z,1\r\n1500000000,2\r\n"))
	f.Add([]byte("timestamp\n1500000000.5\n-1\n9223372036854775808\n"))
	f.Add([]byte("a,a\n"))
	f.Add([]byte(",\"\n"))
	f.Add([]byte("line,line_number\n1e999,0x1p-3\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<16 {
			return
		}
		got := replayed(t, "a.csv", text)
		if got == nil || got.err != nil {
			return
		}
		witness := csv.NewReader(strings.NewReader(strings.TrimPrefix(string(text), "\xef\xbb\xbf")))
		witness.FieldsPerRecord = -1
		all, err := witness.ReadAll()
		if err != nil || strings.Contains(string(text), "timestamp") || strings.Contains(string(text), "\r") {
			return // rows without a time are left out; a single \r is read in another way
		}
		if len(got.rows) != len(all)-1 {
			t.Errorf("%q: %d rows, encoding/csv reads %d", text, len(got.rows), len(all)-1)
		}
	})
}

// FuzzJSONL compares the number of rows to that of encoding/json, line by line.
func FuzzJSONL(f *testing.F) {
	f.Add([]byte(`{"i":1,"f":1.5,"s":"aé\n","n":[1,{"a":2}]}` + "\n\n" + `{"s":"","i":null}` + "\nx\n"))
	f.Add([]byte(`{"timestamp":1500000000.5,"":true}` + "\r\n" + `{"timestamp":"2024-01-01T00:00:00+01:00"}`))
	f.Add([]byte(`{"a":"\ud800\udc00\ud800","b":1e999,"a":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + "}"))
	f.Add([]byte(`{"a":-}{"a":01}` + "\n" + `{"a":1}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<16 {
			return
		}
		got := replayed(t, "a.jsonl", text)
		if got == nil || got.err != nil || !utf8.Valid(text) || strings.Contains(string(text), "timestamp") {
			return
		}
		rows := 0
		for _, line := range strings.Split(strings.TrimPrefix(string(text), "\xef\xbb\xbf"), "\n") {
			var o map[string]any
			if json.Unmarshal([]byte(line), &o) == nil && o != nil {
				rows++
			}
		}
		if len(got.rows) < rows {
			t.Errorf("%q: %d rows, encoding/json reads %d", text, len(got.rows), rows)
		}
	})
}

// TestColumnsAreLimited: a line of a megabyte must not make a batch of gigabytes.
func TestColumnsAreLimited(t *testing.T) {
	var object strings.Builder
	object.WriteString(`{"a":1`)
	for i := range maxColumns {
		object.WriteString(`,"a` + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + strings.Repeat("y", i/26) + `":1`)
	}
	object.WriteString("}\n")
	for name, text := range map[string]string{
		"a.csv":   strings.Repeat(",", maxColumns) + "\n1\n",
		"a.jsonl": object.String(),
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Describe(path); err == nil || !strings.Contains(err.Error(), "has more than 2000 columns") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

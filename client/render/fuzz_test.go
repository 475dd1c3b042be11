package render

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// controls returns the first character of a text that a terminal would interpret, or that
// reverses the direction of others; 0: none.
func controls(text string) rune {
	for i, r := range text {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)) {
			return r
		}
		if _, n := utf8.DecodeRuneInString(text[i:]); r == utf8.RuneError && n == 1 {
			return rune(text[i])
		}
	}
	return 0
}

// FuzzTerminal names columns, values and elements of lists by any text. Formats for people
// have no control character; csv and json are exact.
func FuzzTerminal(f *testing.F) {
	for _, seed := range []string{"\x1b[31mred\x1b]0;title\x07", "\u009b2J", "a\rb\x08\x08", "\u202eevil\u2066", "\xff\xfe", "\x00", "line\u2028end\u2029", "👩\u200d👧|`*\\", "a,b\"c\nd", "\U000e0041"} {
		f.Add(seed, seed)
	}
	f.Add("\xe2", "\x80\xa9") // one character together
	f.Fuzz(func(t *testing.T, name, value string) {
		if len(name) > 1000 || len(value) > 10_000 || name == "" {
			return
		}
		text := types.Str(value)
		list := types.Value{Type: types.List, A: []types.Value{text, types.Str(name)}}
		cols := []wire.Column{{Name: name, Type: types.Varchar}, {Name: "list", Type: types.List}}
		draw := func(format Format, o Options) string {
			var out bytes.Buffer
			r := newRenderer(format, &out, cols, o)
			b := batch.New([]types.Type{types.Varchar, types.List})
			b.AppendRow(text, list)
			if err := r.Rows(b, false); err != nil {
				t.Fatal(err)
			}
			if err := r.End(); err != nil {
				t.Fatal(err)
			}
			return out.String()
		}
		size := func() (int, int) { return 40, 10 }
		for _, c := range []struct {
			format Format
			o      Options
		}{{Table, Options{}}, {Table, Options{Size: size}}, {Table, Options{Expanded: true, Size: size}}, {Markdown, Options{}}} {
			if out := draw(c.format, c.o); controls(out) != 0 {
				t.Errorf("%s: %q has %q", c.format, out, controls(out))
			}
		}
		if out := strings.ReplaceAll(Escape(name), "\t", ""); controls(out) != 0 {
			t.Errorf("a message: %q has %q", out, controls(out))
		}
		if !strings.Contains(name+value, "\r\n") { // encoding/csv reads that as a line end
			rows, err := csv.NewReader(strings.NewReader(draw(CSV, Options{}))).ReadAll()
			if err != nil || len(rows) != 2 || rows[0][0] != name || rows[1][0] != value {
				t.Errorf("csv: %q, %v", rows, err)
			}
		}
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return
		}
		var objects []map[string]any
		if err := json.Unmarshal([]byte(draw(JSON, Options{})), &objects); err != nil || len(objects) != 1 || name != "list" && objects[0][name] != value {
			t.Errorf("json: %q, %v", objects, err)
		}
	})
}

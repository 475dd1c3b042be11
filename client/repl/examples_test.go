package repl

import (
	"path"
	"strings"
	"testing"

	"endoscope/parser"
)

// Each example states its question in the first line, is bounded in time, and is a
// valid statement. \examples lists it, and \i runs it by the listed name.
func TestExamples(t *testing.T) {
	files, err := examples.ReadDir(examplesDir)
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, f := range files {
		name := path.Join(examplesDir, strings.TrimSuffix(f.Name(), ".sql"))
		text, ok := example(name)
		if !ok || !strings.HasPrefix(text, "-- ") || strings.Count(text, "\n--") > 0 {
			t.Errorf("%s begins with no line that says what it asks", name)
		}
		if !strings.HasSuffix(text, " FOR 5s;\n") {
			t.Errorf("%s does not end by itself", name)
		}
		for _, piece := range parser.Split(text) {
			if _, err := parser.Parse(piece.Text); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		sh, _, notes := newShell(t)
		if err := sh.command(t.Context(), `\examples`); err != nil || !strings.Contains(notes.String(), "  "+name+" ") {
			t.Errorf("%s is not listed: %v\n%s", name, err, notes)
		}
		notes.Reset()
		if err := sh.command(t.Context(), `\examples `+path.Base(name)); err != nil || notes.String() != text {
			t.Errorf("%s is shown as %q: %v", name, notes, err)
		}
	}
	sh, _, _ := newShell(t)
	if err := sh.command(t.Context(), `\examples no-such`); err == nil {
		t.Error("an example that there is not is shown")
	}
	if err := sh.command(t.Context(), `\i examples/no-such`); err == nil {
		t.Error("an example that there is not is run")
	}
}

package repl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"go.uber.org/goleak"

	"endoscope/client/internal/fake"
	"endoscope/client/render"
	"endoscope/client/runner"
	"endoscope/server/wire"
)

func newSession(t *testing.T) wire.Session {
	t.Helper()
	e, err := fake.New()
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.NewSession(t.Context(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func newShell(t *testing.T) (sh *Shell, rows, notes *bytes.Buffer) {
	rows, notes = &bytes.Buffer{}, &bytes.Buffer{}
	return New(&runner.Runner{
		Session: newSession(t),
		Signals: runner.NewSignals(func(os.Signal) {}),
		Out:     runner.NewOutput(rows, render.CSV),
		Err:     notes,
	}), rows, notes
}

// testdata/complete lists completions: the cursor is at ^; the output is the word to
// be completed and the candidates with their kinds.
func TestCompletion(t *testing.T) {
	s := newSession(t)
	datadriven.RunTest(t, "testdata/complete", func(t *testing.T, d *datadriven.TestData) string {
		cursor := strings.IndexByte(d.Input, '^')
		if cursor < 0 {
			d.Fatalf(t, "no ^ in %q", d.Input)
		}
		text := d.Input[:cursor] + d.Input[cursor+1:]
		word, found := candidates(t.Context(), s, text, cursor)
		out := fmt.Sprintf("%q", word)
		for _, c := range found {
			out += fmt.Sprintf(" %s:%s", c.Kind, c.Text)
		}
		return out + "\n"
	})
}

// Whatever precedes the cursor, the returned word ends there: readline removes it and
// inserts a candidate in its place.
func FuzzCandidatesCompleteTheWordAtTheCursor(f *testing.F) {
	e, err := fake.New()
	if err != nil {
		f.Fatal(err)
	}
	s, err := e.NewSession(context.Background(), wire.Options{})
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{"", "SELECT du FROM calls c", "USE 'ng", `\d ca`, "c.", "-- ü", "'''", "a.b.c"} {
		f.Add(text, len(text))
	}
	f.Fuzz(func(t *testing.T, text string, cursor int) {
		if cursor < 0 || cursor > len(text) {
			return
		}
		word, _ := candidates(context.Background(), s, text, cursor)
		if !strings.HasSuffix(text[:cursor], word) {
			t.Errorf("%q does not end in %q", text[:cursor], word)
		}
	})
}

func TestLinesGiveStatementsAsTheyAreFinished(t *testing.T) {
	r, w := io.Pipe()
	l := NewLines(r, nil)
	defer l.Close()
	write := func(s string) {
		if _, err := io.WriteString(w, s); err != nil {
			t.Error(err)
		}
	}
	for _, step := range []struct {
		write []string
		want  string
	}{
		{[]string{"SELECT 1;\n"}, "SELECT 1;\n"},
		{[]string{"\n", "SELECT\n", "  ';'\n", "  FROM x;\n"}, "\nSELECT\n  ';'\n  FROM x;\n"},
		{[]string{`\x` + "\n"}, `\x` + "\n"},
		{[]string{"SELECT 1; SELECT\n", "2;\n"}, "SELECT 1; SELECT\n2;\n"},
	} {
		go func() {
			for _, s := range step.write {
				write(s)
			}
		}()
		got, err := l.Read(t.Context())
		if err != nil || got.Src != step.want {
			t.Fatalf("after %q: %q, %v; want %q", step.write, got.Src, err, step.want)
		}
		if got.Whole[got.Offset:] != got.Src {
			t.Errorf("%q is not at %d of %q", got.Src, got.Offset, got.Whole)
		}
	}
	go func() {
		write("SELECT 'no end")
		w.Close()
	}()
	if got, err := l.Read(t.Context()); err != nil || got.Src != "SELECT 'no end" {
		t.Fatalf("the unfinished rest is %q, %v", got.Src, err)
	}
	if _, err := l.Read(t.Context()); err != io.EOF {
		t.Fatalf("after the end: %v, want EOF", err)
	}
}

func TestLinesPromptAndGiveUp(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	var prompts bytes.Buffer
	l := NewLines(r, &prompts)
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = io.WriteString(w, "SELECT\n")
		_, _ = io.WriteString(w, "1;\n")
	}()
	if _, err := l.Read(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := l.Read(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Read after cancel: %v", err)
	}
	if got, want := prompts.String(), prompt+promptMore+prompt; got != want {
		t.Errorf("prompts %q, want %q", got, want)
	}
}

// At the prompt an error is printed and the session continues; a script ends with it.
func TestInteractGoesOnWhereScriptStops(t *testing.T) {
	const src = "SELECT * FROM nowhere;\n\\nonsense\nSELECT * FROM ctrl_none;\nSHOW STREAMS;\n"
	sh, rows, notes := newShell(t)
	if err := sh.Interact(t.Context(), NewLines(strings.NewReader(src), nil)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(rows.String(), "three calls") {
		t.Errorf("the last statement did not run: %q", rows)
	}
	for _, want := range []string{"there is no stream nowhere", `there is no command \nonsense`} {
		if !strings.Contains(notes.String(), want) {
			t.Errorf("%q is not told: %q", want, notes)
		}
	}

	sh, rows, _ = newShell(t)
	in := NewLines(strings.NewReader(src), nil)
	defer in.Close()
	if err := sh.Script(t.Context(), in); err == nil {
		t.Error("the script did not fail")
	}
	if rows.Len() > 0 {
		t.Errorf("the script went on: %q", rows)
	}
}

func TestOutputFileHasTheFormatOfItsName(t *testing.T) {
	for name, want := range map[string]string{
		"o.csv": "function_name,duration\n", "o.jsonl": `{"function_name":"fib"`, "o.json": "[\n{", "o.md": "| function_name |",
		"o.txt": " function_name  | duration\n", "o": " function_name  | duration\n",
	} {
		sh, rows, _ := newShell(t)
		path := filepath.Join(t.TempDir(), name)
		for _, src := range []string{`\o ` + path, "SELECT * FROM calls", `\o`, "SELECT * FROM none"} {
			if err := sh.Do(t.Context(), Text{Src: src}); err != nil {
				t.Fatalf("%s: %v", src, err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(got), want) {
			t.Errorf("%s has %q, %v; want %q...", name, got, err, want)
		}
		if rows.String() != "function_name,duration\n" {
			t.Errorf("%s: after \\o, output has %q", name, rows)
		}
	}
}

func TestHistoryIsPrivate(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	path, err := historyFile()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil { // a file with other permissions
		t.Fatal(err)
	}
	if _, err := historyFile(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s has mode %v, %v; want 0600", path, info.Mode(), err)
	}

	t.Setenv("XDG_STATE_HOME", "relative") // must be ignored by the XDG specification
	t.Setenv("HOME", t.TempDir())
	if path, err = historyFile(); err != nil || path != filepath.Join(os.Getenv("HOME"), ".local/state/endoscope/history") {
		t.Errorf("history is %s, %v", path, err)
	}
}

var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")

// readline measures the typed text, so colours must not add cells.
func FuzzHighlightOnlyColours(f *testing.F) {
	for _, src := range []string{"", "SELECT 'a\nb' FROM x -- c", `\d calls`, "/* a\n\nb */ 1.5ms", "'open\n", "\x00\xff"} {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		if sgr.MatchString(src) {
			return
		}
		got := highlight(src)
		if back := sgr.ReplaceAllString(got, ""); back != src {
			t.Errorf("%q without colours is %q", src, back)
		}
		for _, line := range strings.Split(got, "\n") {
			if n := strings.Count(line, "\x1b[0m"); n*2 != len(sgr.FindAllString(line, -1)) {
				t.Errorf("line %q of %q leaves a colour on", line, got)
			}
		}
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hostileNames is a session of a program whose names hold control characters.
type hostileNames struct{ wire.Session }

func (hostileNames) Complete(context.Context, string, string, string) []string {
	return []string{"good", "evil\x1b[2J", "evil\u009b", "evil\nname", "evil\u202e"}
}

func TestCompletionsHaveNoControlCharacters(t *testing.T) {
	for _, text := range []string{"SELECT * FROM function_call WHERE function_name = 'e", `\d e`} {
		_, found := candidates(t.Context(), hostileNames{}, text, len(text))
		if len(found) != 1 || found[0].Text != "good" {
			t.Errorf("%s: %q", text, found)
		}
	}
}

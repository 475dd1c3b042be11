package repl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/reeflective/readline"
	"github.com/rivo/uniseg"
	"golang.org/x/term"

	"endoscope/client/render"
	"endoscope/client/runner"
	"endoscope/server/wire"
)

// Terminal reads from an interactive user, with multi-line editing, history,
// completion and colours. A process can have only one, since readline owns standard
// input.
type Terminal struct {
	shell *readline.Shell
	lines chan edited
	notes *runner.Notes

	mu      sync.Mutex  // guards pending
	pending []string    // notes to be printed by readline
	saved   *term.State // state of the terminal before the first prompt
}

type edited struct {
	text string
	err  error
}

// NewTerminal returns an input on standard input and output, which must be terminals.
// If the history cannot be saved, the Terminal is usable nevertheless, and the error
// is for a notice.
//
// Notes are shown above the line being edited.
func NewTerminal(ctx context.Context, s wire.Session, notes *runner.Notes, color bool) (*Terminal, error) {
	sh := readline.NewShell()
	t := &Terminal{shell: sh, lines: make(chan edited), notes: notes}
	t.saved, _ = term.GetState(int(os.Stdin.Fd()))

	sh.Prompt.Primary(func() string { return prompt })
	sh.Prompt.Secondary(func() string { return promptMore })
	sh.AcceptMultiline = func(line []rune) bool {
		text := string(line)
		return strings.TrimSpace(text) == "" || complete(text)
	}
	sh.Completer = func(line []rune, cursor int) readline.Completions {
		return completions(ctx, s, line, cursor)
	}
	sh.SyntaxHighlighter = func(line []rune) string {
		text := string(line)
		if color {
			text = highlight(text)
		}
		return text + room()
	}
	// readline queries the cursor position before every key, and loses keys that
	// arrive together with the answer. It uses the position only to check for room
	// below, which room provides.
	_ = sh.Config.Set("cursor-position-probe", false)
	_ = sh.Config.Set("cursor-emacs", "default") // keep the cursor's shape
	// "--" begins a comment in SQL, and readline colours comments.
	_ = sh.Config.Set("comment-begin", "--")
	_ = sh.Config.Set("multiline-column", true) // shows the secondary prompt

	// Tab completes up to the common prefix of the candidates and lists them; further
	// Tabs cycle through them.
	_ = sh.Config.Set("menu-complete-display-prefix", true)
	for _, keymap := range []string{"emacs", "vi-insert"} {
		_ = sh.Config.Bind(keymap, "\t", "menu-complete", false)
	}

	sh.Keymap.Register(map[string]func(){noteCommand: t.printNotes})
	for _, keymap := range []string{"emacs", "vi-insert", "vi-command"} {
		_ = sh.Config.Bind(keymap, string(noteKey), noteCommand, false)
	}

	path, err := historyFile()
	if err == nil {
		sh.History.AddFromFile("endoscope", path)
	}
	return t, err
}

// Read implements [Input]. Ctrl-C returns [ErrAborted], Ctrl-D on an empty line
// io.EOF. If ctx is done, the terminal is restored although readline still waits for
// a key: the program is about to exit.
func (t *Terminal) Read(ctx context.Context) (Text, error) {
	go func() {
		text, err := t.shell.Readline()
		t.lines <- edited{text, err}
	}()
	for {
		select {
		case in := <-t.lines:
			t.flushNotes(func(text string) { fmt.Fprintln(os.Stdout, text) }) // notes that arrived with the last key
			if errors.Is(in.err, readline.ErrInterrupt) {
				return Text{}, ErrAborted
			}
			return Text{Src: in.text}, in.err
		case note := <-t.notes.C():
			t.mu.Lock()
			t.pending = append(t.pending, t.notes.Text(note))
			t.mu.Unlock()
			// readline draws only in its own goroutine, so it is sent a key.
			t.shell.Keys.Feed(false, noteKey)
			t.shell.Keys.RequestRefresh()
		case <-ctx.Done():
			if t.saved != nil {
				_ = term.Restore(int(os.Stdin.Fd()), t.saved)
			}
			return Text{}, ctx.Err()
		}
	}
}

// noteKey is the key that tells readline about notes: Ctrl-^, which has no other
// meaning. Typed by a user it does nothing.
const (
	noteKey     = rune(0x1e)
	noteCommand = "print-notes"
)

// printNotes prints the notes above the line being edited, which is kept. It is
// called by readline, which redraws the line afterwards. (readline's PrintTransientf
// does not support lines of several rows.)
func (t *Terminal) printNotes() {
	t.flushNotes(func(text string) {
		t.shell.Display.CursorToLineStart()
		fmt.Fprintf(os.Stdout, "\r\x1b[J%s\n", text)
		t.shell.Display.PrintPrimaryPrompt()
	})
}

func (t *Terminal) flushNotes(show func(string)) {
	t.mu.Lock()
	pending := t.pending
	t.pending = nil
	t.mu.Unlock()
	if len(pending) > 0 {
		show(strings.Join(pending, "\n"))
	}
}

// below returns the number of rows available to readline below the line being edited, for
// the list of completions: enough for all streams on a screen of 24 lines.
func below() int {
	_, lines, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		lines = 24
	}
	return max(4, min(lines-10, 14))
}

// room returns what is printed after the line each time it is drawn: it scrolls the screen
// if there are fewer rows below than the list needs, and leaves the cursor where it was. IND
// moves down and keeps the column, unlike a newline.
func room() string {
	n := below()
	return strings.Repeat("\x1bD", n) + fmt.Sprintf("\x1b[%dA", n)
}

// completions converts candidates for readline. readline assumes that a word begins
// at a space; here it begins where scan determines. Candidates that do not fit the
// rows below are counted; a longer word shows them.
func completions(ctx context.Context, s wire.Session, line []rune, cursor int) readline.Completions {
	text := string(line)
	word, found := candidates(ctx, s, text, len(string(line[:cursor])))
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		width = 80
	}
	longest := 0
	for _, c := range found {
		longest = max(longest, uniseg.StringWidth(c.text))
	}
	// One row is for the count; readline keeps some space between columns.
	places := (below() - 2) * max(1, width/(longest+4))
	more := len(found) - places
	if more > 0 {
		found = found[:places]
	}
	values := make([]readline.Completion, len(found))
	for i, c := range found {
		values[i] = readline.Completion{Value: c.text, Display: render.Escape(c.text)}
	}
	comps := readline.CompleteRaw(values).NoSort()
	if more > 0 {
		comps = comps.Usage("%d more", more)
	}
	comps.PREFIX = word
	return comps
}

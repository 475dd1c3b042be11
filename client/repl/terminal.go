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

// Terminal reads from a person: with editing over several lines, history,
// completion and colours. There can be one in a process, as readline owns
// standard input.
type Terminal struct {
	shell *readline.Shell
	lines chan edited
	notes *runner.Notes

	mu      sync.Mutex  // guards pending
	pending []string    // notes that readline has yet to print
	saved   *term.State // of the terminal before the first prompt
}

type edited struct {
	text string
	err  error
}

// NewTerminal returns the input at standard input and output, which must be
// terminals. A history that cannot be kept is no reason to stop: the error is
// for a notice, beside a usable Terminal.
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
		return text + room
	}
	// readline asks the terminal where the cursor is before every key, and
	// loses keys that arrive together with the answer. It only wants to know
	// whether there is room below, which room sees to.
	_ = sh.Config.Set("cursor-position-probe", false)
	_ = sh.Config.Set("cursor-emacs", "default") // leave its shape alone
	// "--" begins a comment here, and readline colours what it takes for one.
	_ = sh.Config.Set("comment-begin", "--")

	// Tab completes as far as the candidates agree and lists them; Tab again
	// goes through them.
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

// Read implements [Input]. Ctrl-C gives [ErrAborted], Ctrl-D on an empty line
// io.EOF. When ctx is done, the terminal is given back as it was found although
// readline goes on waiting for a key: the program is about to end.
func (t *Terminal) Read(ctx context.Context) (Text, error) {
	go func() {
		text, err := t.shell.Readline()
		t.lines <- edited{text, err}
	}()
	for {
		select {
		case in := <-t.lines:
			t.flushNotes(func(text string) { fmt.Fprintln(os.Stdout, text) }) // that came with the last key
			if errors.Is(in.err, readline.ErrInterrupt) {
				return Text{}, ErrAborted
			}
			return Text{Src: in.text}, in.err
		case note := <-t.notes.C():
			t.mu.Lock()
			t.pending = append(t.pending, t.notes.Text(note))
			t.mu.Unlock()
			// readline draws in its own goroutine alone: it is sent a key.
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

// noteKey is the key by which readline is told that there are notes: Ctrl-^,
// which means nothing else. Pressed by somebody it does nothing.
const (
	noteKey     = rune(0x1e)
	noteCommand = "print-notes"
)

// printNotes shows the notes above the line being edited, which stays as it is.
// readline calls it, and draws the line again afterwards. (Its own
// PrintTransientf forgets that a line may have several rows.)
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

// below is how many rows readline can count on under the line being edited, for
// the list of completions.
const below = 8

// room is printed after the line whenever it is drawn: it scrolls the screen if
// there are fewer than that many rows below, and leaves the cursor where it was.
// IND goes down and keeps the column, unlike a newline.
var room = strings.Repeat("\x1bD", below) + fmt.Sprintf("\x1b[%dA", below)

// completions puts candidates into readline's terms. readline would take the
// word to begin at a space; here it begins where scan says. Those that the rows
// below have no place for are counted: a longer word finds them.
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
	// One row is for the count, and readline keeps some space between columns.
	places := (below - 2) * max(1, width/(longest+4))
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

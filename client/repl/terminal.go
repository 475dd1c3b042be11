package repl

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/reeflective/readline"
	"golang.org/x/term"

	"endoscope/server/wire"
)

// Terminal reads from a person: with editing over several lines, history,
// completion and colours. There can be one in a process, as readline owns
// standard input.
type Terminal struct {
	shell *readline.Shell
	lines chan edited
	saved *term.State // of the terminal before the first prompt
}

type edited struct {
	text string
	err  error
}

// NewTerminal returns the input at standard input and output, which must be
// terminals. A history that cannot be kept is no reason to stop: the error is
// for a notice, beside a usable Terminal.
func NewTerminal(ctx context.Context, s wire.Session, color bool) (*Terminal, error) {
	sh := readline.NewShell()
	t := &Terminal{shell: sh, lines: make(chan edited)}
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
	if color {
		sh.SyntaxHighlighter = func(line []rune) string { return highlight(string(line)) }
	}
	// "--" begins a comment here, and readline colours what it takes for one.
	_ = sh.Config.Set("comment-begin", "--")

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
	select {
	case in := <-t.lines:
		if errors.Is(in.err, readline.ErrInterrupt) {
			return Text{}, ErrAborted
		}
		return Text{Src: in.text}, in.err
	case <-ctx.Done():
		if t.saved != nil {
			_ = term.Restore(int(os.Stdin.Fd()), t.saved)
		}
		return Text{}, ctx.Err()
	}
}

// completions puts candidates into readline's terms. readline would take the
// word to begin at a space; here it begins where scan says.
func completions(ctx context.Context, s wire.Session, line []rune, cursor int) readline.Completions {
	text := string(line)
	word, found := candidates(ctx, s, text, len(string(line[:cursor])))
	values := make([]readline.Completion, len(found))
	for i, c := range found {
		values[i] = readline.Completion{Value: c.text, Display: c.text, Tag: c.kind}
	}
	comps := readline.CompleteRaw(values)
	comps.PREFIX = word
	return comps
}

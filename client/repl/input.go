package repl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"endoscope/client/runner"
	"endoscope/parser"
)

// ErrAborted is returned by Input.Read when the user discards the input (Ctrl-C).
var ErrAborted = errors.New("aborted")

// Text is a piece of input with its position in all input so far, so that errors can
// state the line.
type Text struct {
	Src    string // statements, or one backslash command
	Whole  string // all input so far; "": Src alone
	Offset int    // of Src in Whole
}

// Input returns the input in complete pieces.
type Input interface {
	// Read returns the next piece; after the last one io.EOF. If ctx is done, it
	// returns ctx's error.
	Read(ctx context.Context) (Text, error)
}

// The prompts have the same width, so that the lines of a statement stay aligned.
const (
	prompt     = "endoscope> "
	promptMore = "      ...> "
)

// Lines reads statements from a pipe or a file incrementally: each is returned as
// soon as its semicolon is read, so that a program can converse with the shell.
type Lines struct {
	lines  chan line
	closed chan struct{}
	prompt io.Writer
	notes  *runner.Notes
	beside io.Writer // destination of notes
	whole  strings.Builder
	start  int // offset in whole of what has not been returned
	end    error
}

type line struct {
	text string
	err  error
}

// NewLines reads from r. Prompts are written to prompt, unless it is nil.
func NewLines(r io.Reader, prompt io.Writer) *Lines {
	l := &Lines{lines: make(chan line), closed: make(chan struct{}), prompt: prompt}
	go func() {
		in := bufio.NewReader(r)
		for {
			text, err := in.ReadString('\n')
			select {
			case l.lines <- line{text, err}:
			case <-l.closed:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return l
}

// ShowNotes makes Read print notes to w while it waits.
func (l *Lines) ShowNotes(n *runner.Notes, w io.Writer) { l.notes, l.beside = n, w }

// Close ends reading. A pending read of a pipe stays blocked until the pipe is closed
// or the process exits.
func (l *Lines) Close() { close(l.closed) }

// Read implements Input.
func (l *Lines) Read(ctx context.Context) (Text, error) {
	for l.end == nil {
		if l.prompt != nil {
			p := prompt
			if strings.TrimSpace(l.whole.String()[l.start:]) != "" {
				p = promptMore
			}
			fmt.Fprint(l.prompt, p)
		}
		select {
		case <-ctx.Done():
			return Text{}, ctx.Err()
		case note := <-l.notes.C():
			if l.prompt != nil {
				fmt.Fprintln(l.prompt) // end the line of the prompt, which is printed again
			}
			fmt.Fprintln(l.beside, l.notes.Text(note))
			continue
		case in := <-l.lines:
			l.whole.WriteString(in.text)
			l.end = in.err
		}
		if t, ok := l.next(false); ok {
			return t, nil
		}
	}
	if t, ok := l.next(true); ok {
		return t, nil
	}
	if l.prompt != nil {
		fmt.Fprintln(l.prompt) // end the line of an unanswered prompt
	}
	return Text{}, l.end
}

// next returns the unreturned input, if it is complete or last is set.
func (l *Lines) next(last bool) (Text, bool) {
	whole := l.whole.String()
	src := whole[l.start:]
	if strings.TrimSpace(src) == "" || !last && !complete(src) {
		return Text{}, false
	}
	t := Text{Src: src, Whole: whole, Offset: l.start}
	l.start = len(whole)
	return t, true
}

// complete reports whether Enter after src submits it.
func complete(src string) bool {
	return isCommand(src) || parser.Complete(src)
}

// words are inputs of users who want to exit or need help; none of them is a
// statement.
var words = map[string]string{"exit": `\q`, "quit": `\q`, "help": `\?`}

// helpWord begins a request for help on a name.
const helpWord = "help "

// commandOf returns src as a backslash command, or "" if it is not one.
func commandOf(src string) string {
	src = strings.TrimSpace(src)
	if strings.HasPrefix(src, `\`) {
		return src
	}
	if len(src) > len(helpWord) && strings.EqualFold(src[:len(helpWord)], helpWord) {
		return `\` + helpWord + src[len(helpWord):]
	}
	return words[strings.ToLower(strings.TrimRight(src, "; "))]
}

// isCommand reports whether src is a backslash command.
func isCommand(src string) bool { return commandOf(src) != "" }

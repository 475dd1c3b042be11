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

// ErrAborted is what Input.Read returns when the user gave up what they were
// typing (Ctrl-C).
var ErrAborted = errors.New("aborted")

// Text is a piece of input, and where it stands in what was read so far, so
// that errors can give its line.
type Text struct {
	Src    string // statements, or one backslash command
	Whole  string // all that the input gave so far; "": Src stands alone
	Offset int    // of Src in Whole
}

// Input gives the shell one complete piece of input after the other.
type Input interface {
	// Read returns the next piece; io.EOF at the end, which the last piece
	// comes before. When ctx is done it returns ctx's error.
	Read(ctx context.Context) (Text, error)
}

// The prompts are of one width, so that statements stay aligned as they grow.
const (
	prompt     = "endoscope> "
	promptMore = "      ...> "
)

// Lines reads statements from a pipe or a file as they come: each is given as
// soon as its semicolon is there, so that a program can hold a conversation.
type Lines struct {
	lines  chan line
	closed chan struct{}
	prompt io.Writer
	notes  *runner.Notes
	beside io.Writer // where notes go
	whole  strings.Builder
	start  int // of what has not been given, in whole
	end    error
}

type line struct {
	text string
	err  error
}

// NewLines reads from r. Prompts go to the writer, if there is one.
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

// Heed has what triggers say shown while a read waits.
func (l *Lines) Heed(n *runner.Notes, w io.Writer) { l.notes, l.beside = n, w }

// Close ends reading. A read that waits for a pipe goes on waiting, until the
// pipe or the process ends.
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
				fmt.Fprintln(l.prompt) // away from the prompt, which comes again
			}
			fmt.Fprintln(l.beside, l.notes.Text(note))
			continue
		case in := <-l.lines:
			l.whole.WriteString(in.text)
			l.end = in.err
		}
		if t, ok := l.take(false); ok {
			return t, nil
		}
	}
	if t, ok := l.take(true); ok {
		return t, nil
	}
	if l.prompt != nil {
		fmt.Fprintln(l.prompt) // after the prompt that got no answer
	}
	return Text{}, l.end
}

// take returns what has been read and not given, if it is complete, or if
// nothing will follow.
func (l *Lines) take(last bool) (Text, bool) {
	whole := l.whole.String()
	src := whole[l.start:]
	if strings.TrimSpace(src) == "" || !last && !complete(src) {
		return Text{}, false
	}
	t := Text{Src: src, Whole: whole, Offset: l.start}
	l.start = len(whole)
	return t, true
}

// complete reports whether Enter after src means go.
func complete(src string) bool {
	return isCommand(src) || parser.Complete(src)
}

// words are what people type who look for the way out, or for help; no
// statement is one of them.
var words = map[string]string{"exit": `\q`, "quit": `\q`, "help": `\?`}

// helpWord begins what people type who want to know of something.
const helpWord = "help "

// commandOf returns src as a backslash command, or "" if it is none.
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

package repl

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/term"

	"endoscope/client/help"
	"endoscope/client/runner"
)

// Manual writes a topic of the manual to w, or the list of topics if topic is "". If
// w is a terminal and the text is longer than the screen, it is shown by $PAGER, or
// else by less. While the pager runs, it handles Ctrl-C.
//
// The error for an unknown topic is a [*help.NotFoundError].
func Manual(w io.Writer, topic string, signals *runner.Signals) error {
	out := runner.NewOutput(w, "")
	style := help.Style{Color: out.Render.Color}
	height := 0
	if out.Terminal() {
		style.Width, height = out.Render.Size()
	}
	var b strings.Builder
	if err := help.Show(&b, topic, style); err != nil {
		return err
	}
	text := b.String()
	if height > 0 && strings.Count(text, "\n") >= height && term.IsTerminal(int(os.Stdin.Fd())) && Page(w.(*os.File), text, signals) {
		return nil
	}
	_, err := io.WriteString(w, text)
	return err
}

// Page shows a text by $PAGER, or else by less, and reports whether it did.
func Page(terminal *os.File, text string, signals *runner.Signals) bool {
	pager, chosen := os.LookupEnv("PAGER")
	if !chosen {
		pager = "less"
	}
	words := strings.Fields(pager)
	if len(words) == 0 || words[0] == "cat" {
		return false
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(text), terminal, terminal
	if os.Getenv("LESS") == "" {
		cmd.Env = append(os.Environ(), "LESS=FRX") // as git does: keep colours, and leave the text on the screen
	}
	_, release := signals.Receive()
	defer release()
	if cmd.Start() != nil {
		return false
	}
	_ = cmd.Wait() // the pager fails if the user quits before the end
	return true
}

// manual runs \help [topic].
func (s *Shell) manual(_ context.Context, topic string) error {
	err := Manual(s.run.Err, topic, s.run.Signals)
	if missing, ok := errors.AsType[*help.NotFoundError](err); ok {
		hint := missing.Hint
		if hint == "" {
			hint = `\help lists the topics`
		}
		return mistake(hint, "%v", missing)
	}
	return err
}

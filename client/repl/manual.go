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

// Manual writes what the manual says about a topic to w, or without one the list
// of topics. If w is a terminal and the text is longer than it, $PAGER shows it,
// or else less; while the pager runs, Ctrl-C is its own.
//
// A topic that there is not gives a [*help.NotFoundError].
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
	if height > 0 && strings.Count(text, "\n") >= height && term.IsTerminal(int(os.Stdin.Fd())) && page(w.(*os.File), text, signals) {
		return nil
	}
	_, err := io.WriteString(w, text)
	return err
}

// page runs the pager, and reports whether it showed the text.
func page(terminal *os.File, text string, signals *runner.Signals) bool {
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
		cmd.Env = append(os.Environ(), "LESS=FRX") // as git has it: colours stay, and the text stays on the screen
	}
	_, release := signals.Take()
	defer release()
	if cmd.Start() != nil {
		return false
	}
	_ = cmd.Wait() // it ends with an error if its reader goes before the end
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

package runner

import (
	"io"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/term"
)

// Page writes text that is read from its beginning to w. If w is a terminal and
// the text is longer than it, $PAGER shows it, or else less. While the pager
// runs, it has the terminal, and Ctrl-C is its own.
func Page(w io.Writer, text string, signals *Signals) error {
	out := NewOutput(w, "")
	if out.Terminal() && term.IsTerminal(int(os.Stdin.Fd())) {
		if _, height := out.Render.Size(); strings.Count(text, "\n") >= height && page(w.(*os.File), text, signals) {
			return nil
		}
	}
	_, err := io.WriteString(w, text)
	return err
}

// page runs the pager, and reports whether it showed the text.
func page(terminal *os.File, text string, signals *Signals) bool {
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
		cmd.Env = append(os.Environ(), "LESS=FRX") // as git has it: colours, and no more screens than it takes
	}
	_, release := signals.Take()
	defer release()
	if cmd.Start() != nil {
		return false
	}
	_ = cmd.Wait() // less ends with an error if it is interrupted
	return true
}

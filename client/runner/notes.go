package runner

import (
	"fmt"
	"io"
	"sync/atomic"

	"endoscope/client/render"
)

// Notes is a queue of lines that arrive asynchronously, from triggers. The running
// statement, or else the prompt, shows them.
type Notes struct {
	lines chan string
	lost  atomic.Uint64
}

// NewNotes returns an empty queue.
func NewNotes() *Notes { return &Notes{lines: make(chan string, 256)} }

// Add adds a line. It does not block: lines that do not fit are dropped and counted,
// and the count is shown.
func (n *Notes) Add(text string) {
	select {
	case n.lines <- text:
	default:
		n.lost.Add(1)
	}
}

// C returns the channel of lines; nil for a nil queue, which never delivers.
func (n *Notes) C() <-chan string {
	if n == nil {
		return nil
	}
	return n.lines
}

// Text formats a line for display, after the number of lines dropped before it.
func (n *Notes) Text(line string) string {
	line = render.Escape(line)
	if lost := n.lost.Swap(0); lost > 0 {
		line = fmt.Sprintf("notice: %d notifications could not be shown\n%s", lost, line)
	}
	return line
}

// Print shows all queued lines.
func (n *Notes) Print(w io.Writer) {
	for {
		select {
		case line := <-n.lines:
			fmt.Fprintln(w, n.Text(line))
		default:
			return
		}
	}
}

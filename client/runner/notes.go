package runner

import (
	"fmt"
	"io"
	"sync/atomic"

	"endoscope/client/render"
)

// Notes are lines that come on their own, from triggers, and are shown by whoever
// has the screen: the running statement, or the prompt.
type Notes struct {
	lines chan string
	lost  atomic.Uint64
}

// NewNotes returns an empty queue.
func NewNotes() *Notes { return &Notes{lines: make(chan string, 256)} }

// Add adds a line. It does not block: lines for which there is no room are
// counted, which is shown in their place.
func (n *Notes) Add(text string) {
	select {
	case n.lines <- text:
	default:
		n.lost.Add(1)
	}
}

// C is where the lines come from; nil of none, from which none come.
func (n *Notes) C() <-chan string {
	if n == nil {
		return nil
	}
	return n.lines
}

// Text is a line as it is shown, behind one that says how many before it were
// not.
func (n *Notes) Text(line string) string {
	line = render.Escape(line)
	if lost := n.lost.Swap(0); lost > 0 {
		line = fmt.Sprintf("notice: %d notifications could not be shown\n%s", lost, line)
	}
	return line
}

// Print shows what there is.
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

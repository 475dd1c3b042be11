package flight

import (
	"fmt"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow/flight"

	"endoscope/server/wire"
)

// notes queues the messages of a session's triggers until they are sent.
type notes struct {
	lines chan string
	armed chan struct{} // holds a token when something was armed
	lost  atomic.Uint64
}

func newNotes() *notes {
	return &notes{lines: make(chan string, notesQueued), armed: make(chan struct{}, 1)}
}

// arm reports that something was armed; several reports are combined.
func (n *notes) arm() {
	select {
	case n.armed <- struct{}{}:
	default:
	}
}

// add does not block: a note that finds the queue full is dropped and counted.
func (n *notes) add(text string) {
	select {
	case n.lines <- text:
	default:
		n.lost.Add(1)
	}
}

func (n *notes) send(stream flight.FlightService_DoActionServer, text string) error {
	if lost := n.lost.Swap(0); lost > 0 {
		if err := answer(stream, wire.Note{Text: fmt.Sprintf("notice: %d notifications were lost, as they were not read", lost)}); err != nil {
			return err
		}
	}
	return answer(stream, wire.Note{Text: text})
}

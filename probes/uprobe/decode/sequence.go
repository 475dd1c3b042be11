package decode

import "endoscope/probes/uprobe/calls"

// Events of a thread's sequence of calls, or a goroutine's: the stream
// function_call.
const (
	EventEnter  = "ENTER"
	EventLeave  = "LEAVE"
	EventUnwind = "UNWIND" // the call was abandoned: longjmp, an exception, exec, the end of its thread
	EventGap    = "GAP"    // events are missing before the next one
	eventOver   = "OVER"   // with frames: a call has returned that had begun before its probe was there

	gapInitial = 'G'
)

// nameEvents notes the codes of the events' names.
func (s *Subscription) nameEvents() {
	for i, col := range s.cols {
		if col != calls.ColEvent {
			continue
		}
		for _, name := range []string{EventEnter, EventLeave, EventUnwind, EventGap, eventOver} {
			s.events[name[0]] = s.rows.Code(i, name)
		}
	}
}

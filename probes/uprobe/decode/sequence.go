package decode

import "endoscope/probes/uprobe/calls"

// Names of the events of the stream function_call: the sequence of calls of a thread
// or goroutine.
const (
	EventEnter  = "ENTER"
	EventLeave  = "LEAVE"
	EventUnwind = "UNWIND" // the call was abandoned: longjmp, an exception, exec, the end of its thread
	EventGap    = "GAP"    // events are missing before the next one
	eventOver   = "OVER"   // only with frames: a call returned that began before its probe was attached

	gapInitial = 'G'
)

// nameEvents assigns dictionary codes to the events' names.
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

package uprobe

import "endoscope/probes/uprobe/abi"

// Events of a thread's sequence of calls, or a goroutine's: the stream
// function_call.
const (
	eventEnter  = "ENTER"
	eventLeave  = "LEAVE"
	eventUnwind = "UNWIND" // the call was abandoned: longjmp, an exception, exec, the end of its thread
	eventGap    = "GAP"    // events are missing before the next one
	eventOver   = "OVER"   // with frames: a call has returned that had begun before its probe was there

	gapInitial = 'G'
)

// goidFlag is in the cookie of a function of Go where in its g a goroutine has
// its number, for the programs to tell sequences apart; 0: not known.
func goidFlag(offset uint64) uint32 {
	if offset%8 != 0 || offset <= 8*abi.MinGoid || offset > 8*abi.MaxGoid {
		return 0
	}
	return uint32(offset/8-abi.MinGoid) << abi.FirstGoid
}

// nameEvents notes the codes of the events' names.
func (s *subscription) nameEvents() {
	for i, col := range s.cols {
		if col != colEvent {
			continue
		}
		for _, name := range []string{eventEnter, eventLeave, eventUnwind, eventGap, eventOver} {
			s.events[name[0]] = s.rows.Code(i, name)
		}
	}
}

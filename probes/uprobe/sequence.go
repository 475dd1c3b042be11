package uprobe

// Events of a thread's sequence of calls, the stream function_call.
const (
	eventEnter  = "ENTER"
	eventLeave  = "LEAVE"
	eventUnwind = "UNWIND" // the call was abandoned: longjmp, exec
	eventGap    = "GAP"    // events are missing before the next one

	gapInitial = 'G'
)

// nameEvents notes the codes of the events' names.
func (s *subscription) nameEvents() {
	for i, col := range s.cols {
		if col != colEvent {
			continue
		}
		for _, name := range []string{eventEnter, eventLeave, eventUnwind, eventGap} {
			s.events[name[0]] = s.pool.Dict(i).Code(name)
		}
	}
}

// noFunction makes NULL what the row being added says of a function: a gap is
// the thread's.
func (s *subscription) noFunction() {
	for i, col := range s.cols {
		switch col {
		case colFunction, colClass, colModule, colClassLineage, colMethodSize, colNative:
			s.b.Cols[i].Nulls.Set(s.b.N)
		}
	}
}

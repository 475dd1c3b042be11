package consistency

// lock is one thread's use of one lock: what has happened, and how much of it was reported.
// Never more is reported than happened: a reader of the reports never sees a thread wait or
// hold that does not.
type lock struct {
	acquired []past // acquisitions not released
	waiting  *past  // the wait in progress
	held     int    // number of acquired that were reported
	waits    bool   // the wait was reported
	unknown  bool   // it may be an unrecorded entity
}

func (l *lock) idle() bool { return len(l.acquired) == 0 && l.waiting == nil }

// fits reports whether e may follow what has happened. If not, an earlier event was not
// seen.
func (l *lock) fits(k Kind) bool {
	switch k {
	case Acquire, BeginWait:
		return l.waiting == nil
	case Release:
		return l.waiting == nil && len(l.acquired) > 0
	}
	return l.waiting != nil
}

// apply records an event that fits.
func (l *lock) apply(e past) {
	switch e.Kind {
	case Acquire:
		l.acquired = append(l.acquired, e)
	case Release:
		l.acquired = l.acquired[:len(l.acquired)-1]
	case BeginWait:
		l.waiting = &e
	case EndWait:
		l.waiting = nil
	}
}

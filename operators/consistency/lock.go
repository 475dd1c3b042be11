package consistency

// lock is what one thread has done to one lock: what has happened, and what of it
// was reported. The latter never is more than the former: who reads the reports
// sees nobody wait or hold who does not.
type lock struct {
	acquired []past // those that were not released
	waiting  *past  // the wait that has not ended
	held     int    // of acquired, how many were reported
	waits    bool   // waiting was reported
	unknown  bool   // it may be an entity that was forgotten
}

func (l *lock) idle() bool { return len(l.acquired) == 0 && l.waiting == nil }

// fits reports whether e may follow what has happened. What does not tells of
// something before it that was not seen.
func (l *lock) fits(k Kind) bool {
	switch k {
	case Acquire, BeginWait:
		return l.waiting == nil
	case Release:
		return l.waiting == nil && len(l.acquired) > 0
	}
	return l.waiting != nil
}

// apply takes in an event that fits.
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

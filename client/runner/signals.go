package runner

import (
	"os"
	"sync"
	"time"
)

// together is how soon after a signal the same one again says nothing new:
// timeout(1) sends its signal to the program and then to the program's group,
// and by the second the statement that the first has ended may be over.
const together = 200 * time.Millisecond

// Signals hands each signal to whoever is at work: the running statement, or,
// between statements, the program.
type Signals struct {
	mu   sync.Mutex
	busy chan os.Signal
	idle func(os.Signal)
	last os.Signal
	came time.Time // when last came
}

// NewSignals returns a dispatcher that calls idle for signals that come while
// no statement runs.
func NewSignals(idle func(os.Signal)) *Signals { return &Signals{idle: idle} }

// Deliver passes a signal on, unless the same one came just before. It does not
// block.
func (s *Signals) Deliver(sig os.Signal) {
	s.mu.Lock()
	busy, now := s.busy, time.Now()
	again := sig == s.last && now.Sub(s.came) < together
	s.last, s.came = sig, now
	s.mu.Unlock()
	if again {
		return
	}
	if busy == nil {
		s.idle(sig)
		return
	}
	select {
	case busy <- sig:
	default: // three are waiting: a fourth says nothing new
	}
}

// Take makes the caller the one who gets signals, until it calls release.
// Inner callers win over outer ones.
func (s *Signals) Take() (signals <-chan os.Signal, release func()) {
	mine := make(chan os.Signal, 3)
	s.mu.Lock()
	defer s.mu.Unlock()
	outer := s.busy
	s.busy = mine
	return mine, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.busy = outer
	}
}

package runner

import (
	"os"
	"sync"
	"time"
)

// together is the time within which a repeated signal is ignored: timeout(1) signals
// the program and then the program's group, and by the second signal the statement
// that the first has ended may be over.
const together = 200 * time.Millisecond

// Signals dispatches each signal to the running statement, or, between statements, to
// the program.
type Signals struct {
	mu   sync.Mutex
	busy chan os.Signal
	idle func(os.Signal)
	last os.Signal
	came time.Time // time of last
}

// NewSignals returns a dispatcher that calls idle for signals between statements.
func NewSignals(idle func(os.Signal)) *Signals { return &Signals{idle: idle} }

// Deliver dispatches a signal, unless the same one came just before. It does not
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
	default: // three are queued: a fourth adds nothing
	}
}

// Receive makes the caller the receiver of signals until it calls release. The latest
// caller takes precedence.
func (s *Signals) Receive() (signals <-chan os.Signal, release func()) {
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

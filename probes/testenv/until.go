package testenv

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// patience is the time limit for a condition: far longer than it takes on a
// busy machine, so that it decides whether something happens, and never how
// fast.
const patience = 3 * time.Minute

// Until waits until a condition holds, and returns how long it took. It fails
// the test after minutes. It must be called by the test's goroutine.
func Until(t testing.TB, what string, holds func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	if !poll(patience, holds) {
		t.Fatalf("waited %v in vain: %s", patience, what)
	}
	return time.Since(began)
}

// UntilNil waits until try returns nil. After minutes it fails the test, with
// the last error.
func UntilNil(t testing.TB, what string, try func() error) {
	t.Helper()
	var err error
	if !poll(patience, func() bool { err = try(); return err == nil }) {
		t.Fatalf("waited %v in vain: %s: %v", patience, what, err)
	}
}

// poll checks a condition, often at first and then more rarely.
func poll(limit time.Duration, holds func() bool) bool {
	for began := time.Now(); !holds(); {
		took := time.Since(began)
		if took > limit {
			return false
		}
		time.Sleep(min(max(took/10, time.Millisecond), 20*time.Millisecond))
	}
	return true
}

// Blocked returns how many goroutines are blocked, on a lock, a channel or the
// like, in functions whose names contain text.
func Blocked(text string) int {
	n := 0
	for _, g := range goroutines() {
		if g.blocked && strings.Contains(g.frames, text) {
			n++
		}
	}
	return n
}

// Alongside starts f in a goroutine of its own. It returns when that goroutine
// is blocked, or has ended.
func Alongside(t testing.TB, f func()) {
	t.Helper()
	id, over := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(over)
		header := make([]byte, 64)
		name, _, _ := strings.Cut(string(header[:runtime.Stack(header, false)]), " [")
		id <- name
		f()
	}()
	name, before := <-id, ""
	Until(t, "what runs alongside waits for something, or is over", func() bool {
		select {
		case <-over:
			return true
		default:
		}
		g := goroutines()[name]
		same := g.blocked && g.frames == before // otherwise it may be blocked for a moment only
		before = g.frames
		return same
	})
}

// goroutine is the state of a goroutine of this program.
type goroutine struct {
	blocked bool
	frames  string
}

// goroutines returns all goroutines of this program except the caller's, by
// "goroutine 1".
func goroutines() map[string]goroutine {
	text := make([]byte, 1<<20)
	n := runtime.Stack(text, true)
	for n == len(text) {
		text = make([]byte, 2*n)
		n = runtime.Stack(text, true)
	}
	text = text[:n]
	all := map[string]goroutine{}
	for i, stack := range strings.Split(string(text), "\n\n") {
		header, frames, _ := strings.Cut(stack, "\n")
		name, state, _ := strings.Cut(header, " [")
		state, _, _ = strings.Cut(strings.TrimRight(state, "]:"), ",")
		if i > 0 {
			goesOn := slices.Contains([]string{"running", "runnable", "syscall", "sleep"}, state)
			all[name] = goroutine{!goesOn, frames}
		}
	}
	return all
}

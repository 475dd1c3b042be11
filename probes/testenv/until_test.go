package testenv

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// failing is a test that records its failure.
type failing struct {
	testing.TB
	with string
}

func (*failing) Helper() {}
func (f *failing) Fatalf(format string, args ...any) {
	f.with = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// fails returns the failure of a wait, and the time it took.
func fails(t *testing.T, wait func(testing.TB)) (with string, after time.Duration) {
	f := &failing{TB: t}
	began, done := time.Now(), make(chan bool)
	go func() {
		defer close(done)
		wait(f)
	}()
	<-done
	return f.with, time.Since(began)
}

func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		took := Until(t, "a second is over", func() bool { return time.Since(began) >= time.Second })
		if took < time.Second || took > 1100*time.Millisecond {
			t.Errorf("a second took %v", took)
		}
		if Until(t, "it holds", func() bool { return true }) != 0 {
			t.Error("it waits for what holds")
		}
		n := 0
		UntilNil(t, "the third attempt", func() error {
			if n++; n < 3 {
				return errors.New("not yet")
			}
			return nil
		})
	})
}

// The failure of a wait contains what was awaited, and the last state.
func TestUntilSaysWhatWasAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		with, after := fails(t, func(t testing.TB) { Until(t, "the sun rises", func() bool { return false }) })
		if !strings.Contains(with, "the sun rises") || after < patience || after > patience+time.Second {
			t.Errorf("after %v: %s", after, with)
		}
		with, _ = fails(t, func(t testing.TB) { UntilNil(t, "the sun rises", func() error { return errors.New("it is night") }) })
		if !strings.Contains(with, "the sun rises: it is night") {
			t.Error(with)
		}
	})
}

// Alongside returns once its function is blocked.
func TestAlongside(t *testing.T) {
	release, steps := make(chan struct{}), make(chan string, 3)
	Alongside(t, func() {
		time.Sleep(20 * time.Millisecond) // it sleeps before it blocks
		steps <- "before"
		<-release
		steps <- "after"
	})
	if got := Blocked("testenv.TestAlongside.func"); got != 1 || len(steps) != 1 {
		t.Errorf("%d wait, after %d steps", got, len(steps))
	}
	close(release)
	Until(t, "nothing waits", func() bool { return len(steps) == 2 && Blocked("testenv.TestAlongside.func") == 0 })
	Alongside(t, func() {}) // which has ended
}

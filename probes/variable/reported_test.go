package variable

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// unreported counts writes whose report the hypervisor has lost, in this process and by a debugger
// that a test compares with.
var unreported atomic.Int64

// maxAttempts limits the attempts of a test whose writes are not all reported.
const maxAttempts = 5

// reported runs a test that needs the report of every write. The hypervisor of a virtual machine
// loses one at times. The source counts it, so such an attempt may fail, and is followed by another.
// A failure without such a loss is one of the test.
func reported(t *testing.T, test func(t testing.TB)) {
	t.Helper()
	for n := 1; ; n++ {
		before := unreported.Load()
		a := &attempt{TB: t}
		a.run(test)
		lost := unreported.Load() - before
		if len(a.failures) == 0 || lost == 0 || n == maxAttempts {
			for _, text := range a.failures {
				t.Error(text)
			}
			return
		}
		t.Logf("attempt %d, in which the hypervisor lost %d reports: %q", n, lost, a.failures)
	}
}

// attempt is the testing.TB of one attempt: it keeps failures, and cleans up when the attempt ends.
type attempt struct {
	testing.TB
	failures []string
	cleanups []func()
}

// run runs a test in a goroutine of its own, which Fatal and Skip end.
func (a *attempt) run(test func(testing.TB)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(a)
	}()
	<-done
	for _, f := range slices.Backward(a.cleanups) {
		f()
	}
}

func (a *attempt) Cleanup(f func()) { a.cleanups = append(a.cleanups, f) }

// fail keeps a failure, with the place of the caller's caller.
func (a *attempt) fail(text string) {
	if _, file, line, ok := runtime.Caller(2); ok {
		text = fmt.Sprintf("%s:%d: %s", filepath.Base(file), line, text)
	}
	a.failures = append(a.failures, text)
}

func (a *attempt) Error(args ...any)                 { a.fail(fmt.Sprint(args...)) }
func (a *attempt) Errorf(format string, args ...any) { a.fail(fmt.Sprintf(format, args...)) }
func (a *attempt) Fatal(args ...any)                 { a.fail(fmt.Sprint(args...)); runtime.Goexit() }
func (a *attempt) Fatalf(format string, args ...any) {
	a.fail(fmt.Sprintf(format, args...))
	runtime.Goexit()
}
func (a *attempt) Fail()        { a.fail("failed") }
func (a *attempt) FailNow()     { a.fail("failed"); runtime.Goexit() }
func (a *attempt) Failed() bool { return len(a.failures) > 0 }

// A test is repeated after a loss, and only then; what it has begun is over before.
func TestReported(t *testing.T) {
	attempts, open := 0, 0
	reported(t, func(t testing.TB) {
		attempts++
		open++
		t.Cleanup(func() { open-- })
		if open != 1 {
			t.Fatalf("%d attempts are open", open)
		}
		if attempts < 3 {
			unreported.Add(1)
			t.Fatal("a row is missing")
		}
	})
	if attempts != 3 || open != 0 {
		t.Errorf("%d attempts, of which %d are open", attempts, open)
	}
	a := &attempt{TB: t}
	a.run(func(t testing.TB) { t.Errorf("%d rows", 1); t.FailNow(); t.Error("not reached") })
	if len(a.failures) != 2 || !strings.HasPrefix(a.failures[0], "reported_test.go:") || !strings.HasSuffix(a.failures[0], ": 1 rows") || !a.Failed() {
		t.Errorf("failures are %q", a.failures)
	}
}

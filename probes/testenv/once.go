package testenv

import "testing"

// Once is for conditions that hold unless the machine is busy: it makes up to
// ten attempts, of which one must succeed. A defect fails all of them; checks
// that are independent of the load do not belong in an attempt.
func Once(t testing.TB, attempt func() error) {
	t.Helper()
	var err error
	for range 10 {
		if err = attempt(); err == nil {
			return
		}
		t.Logf("once more: %v", err)
	}
	t.Fatal(err)
}

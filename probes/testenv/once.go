package testenv

import "testing"

// Once is for what holds unless the machine is busy with something else: it makes
// up to ten attempts, of which one must hold. A defect fails them all; what holds
// however busy the machine is does not belong into an attempt.
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

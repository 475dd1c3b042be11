package testenv

import (
	"fmt"
	"os"
	"testing"
)

// ForgetJava removes, when the test ends, the files that a killed Java machine
// leaves in /tmp: its attach socket and its perf map. A later process with the
// same pid would appear to own them.
func ForgetJava(t testing.TB, pid int) {
	t.Cleanup(func() {
		os.Remove(fmt.Sprintf("/tmp/.java_pid%d", pid))
		os.Remove(fmt.Sprintf("/tmp/perf-%d.map", pid))
	})
}

package testenv

import (
	"fmt"
	"os"
	"testing"
)

// ForgetJava removes, when the test ends, what a Java machine that is killed leaves in
// /tmp: its socket for who asks it for something, and where its methods are. A later
// process of the same number would seem to have them.
func ForgetJava(t testing.TB, pid int) {
	t.Cleanup(func() {
		os.Remove(fmt.Sprintf("/tmp/.java_pid%d", pid))
		os.Remove(fmt.Sprintf("/tmp/perf-%d.map", pid))
	})
}

package testenv

import (
	"os"
	"os/signal"
	"testing"
)

// Interruptible lets the programs that a test starts receive SIGINT. They inherit
// it ignored if this program is a background job of a script: unless it is handled
// here.
func Interruptible(t testing.TB) {
	handled := make(chan os.Signal, 1)
	signal.Notify(handled, os.Interrupt)
	t.Cleanup(func() { signal.Stop(handled) })
}

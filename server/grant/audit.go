package grant

import (
	"fmt"
	"log/slog"
)

// Log takes what a user did: what was attached where, when, and until when,
// what they changed, and what they were refused. It is called by several
// goroutines.
type Log interface {
	// Record notes one action. args are slog's: pairs of a name and a value.
	Record(action string, args ...any)
}

// Logger is a Log that writes to l, with args in each line.
func Logger(l *slog.Logger, args ...any) Log { return logger{l.With(args...)} }

type logger struct{ l *slog.Logger }

func (l logger) Record(action string, args ...any) { l.l.Info(action, args...) }

// Record notes one action, if anybody wants to know.
func (g *Grant) Record(action string, args ...any) {
	if g != nil && g.Audit != nil {
		g.Audit.Record(action, args...)
	}
}

func mib(n int64) string { return fmt.Sprintf("%d MiB", (n+1<<20-1)>>20) }

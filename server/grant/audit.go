package grant

import (
	"fmt"
	"log/slog"
)

// Log records a user's actions: what was attached where, from when until when, what
// was changed, and what was refused. It must be safe for concurrent use.
type Log interface {
	// Record logs one action. args are pairs of name and value, as in slog.
	Record(action string, args ...any)
}

// Logger returns a Log that writes to l, with args in each line.
func Logger(l *slog.Logger, args ...any) Log { return logger{l.With(args...)} }

type logger struct{ l *slog.Logger }

func (l logger) Record(action string, args ...any) { l.l.Info(action, args...) }

// Record logs one action if g has an audit log.
func (g *Grant) Record(action string, args ...any) {
	if g != nil && g.Audit != nil {
		g.Audit.Record(action, args...)
	}
}

func mib(n int64) string { return fmt.Sprintf("%d MiB", (n+1<<20-1)>>20) }

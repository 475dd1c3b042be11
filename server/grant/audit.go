package grant

import (
	"fmt"
	"log/slog"
	"strings"
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

// Record logs one action if g has an audit log, and charges it to the user's account
// (Account.LogWait).
func (g *Grant) Record(action string, args ...any) {
	if g == nil || g.Audit == nil {
		return
	}
	g.Audit.Record(action, args...)
	g.Account.charge(sizeOf(action, args))
}

// Refused is Record of a refusal, of which a log may leave some out. Long texts are cut
// off.
func (g *Grant) Refused(args ...any) {
	if g == nil || g.Audit == nil {
		return
	}
	for i, a := range args {
		if text, ok := a.(string); ok && len(text) > refusedText {
			args[i] = fmt.Sprintf("%s... (%d bytes)", strings.ToValidUTF8(text[:refusedText], ""), len(text))
		}
	}
	g.Audit.Record("refused", args...)
}

// refusedText is how much of a text a refusal has, in bytes.
const refusedText = 2048

// sizeOf estimates the size of a record.
func sizeOf(action string, args []any) int {
	n := 200 + len(action) // with the time, user and address
	for _, a := range args {
		switch a := a.(type) {
		case string:
			n += len(a)
		case []string:
			for _, s := range a {
				n += len(s) + 3
			}
		case []int:
			n += 8 * len(a)
		default:
			n += 8
		}
	}
	return n
}

func mib(n int64) string { return fmt.Sprintf("%d MiB", (n+1<<20-1)>>20) }

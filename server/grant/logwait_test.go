package grant

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// All that a user has executed is on record, and no more of it than the rate permits.
func TestExecutedStatementsAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 1000
		var log bytes.Buffer
		g := &Grant{User: "alice", Account: NewAccount(Limits{Log: rate}), Audit: Logger(slog.New(slog.NewTextHandler(&log, nil)), "user", "alice")}
		began := time.Now()
		const n = 2000
		statement := strings.Repeat("x", 100)
		for range n {
			g.Account.AwaitLog(t.Context().Done())
			g.Record("executed", "statement", statement)
		}
		if got := strings.Count(log.String(), statement); got != n {
			t.Errorf("%d of %d are on record", got, n)
		}
		seconds := time.Since(began).Seconds()
		if most := rate * (seconds + logBurst.Seconds() + 1); float64(log.Len()) > most || seconds == 0 {
			t.Errorf("%d bytes in %.0f s, at most %.0f are permitted", log.Len(), seconds, most)
		}
		// Who waits can give up.
		g.Record("executed", "statement", strings.Repeat("x", 1<<20))
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		if waited := g.Account.AwaitLog(ctx.Done()); waited != 1500*time.Millisecond {
			t.Errorf("waited %s", waited)
		}
		// After a pause, a minute's worth may be written at once, and not more.
		time.Sleep(24 * time.Hour)
		written := 0
		for g.Account.LogWait() == 0 {
			before := log.Len()
			g.Record("executed", "statement", statement)
			written += log.Len() - before
		}
		if most := int(rate * (logBurst.Seconds() + 1)); written > most || written < most/3 {
			t.Errorf("%d bytes after a pause", written)
		}
	})
}

// Refusals cost nothing, since some are left out; their texts are cut off.
func TestRefusedStatementsAreShort(t *testing.T) {
	var log bytes.Buffer
	g := &Grant{User: "alice", Account: NewAccount(Limits{Log: 1}), Audit: Logger(slog.New(slog.NewTextHandler(&log, nil)))}
	g.Refused("statement", strings.Repeat("ü", 1<<19), "error", "no")
	if n := log.Len(); n > 3*refusedText || !strings.Contains(log.String(), "... (1048576 bytes)") || !strings.Contains(log.String(), "error=no") {
		t.Errorf("%d bytes", n)
	}
	if d := g.Account.LogWait(); d != 0 {
		t.Errorf("it costs %s", d)
	}
}

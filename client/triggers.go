package client

import (
	"context"
	"fmt"
	"strings"

	"endoscope/client/runner"
	"endoscope/operators/batch"
	"endoscope/server/wire"
)

// showRows shows the rows of the session's triggers as notes, one per line, at an
// interactive prompt. NOTIFY is shown separately.
func showRows(ctx context.Context, s wire.Session, notes *runner.Notes) (stop func()) {
	rows := s.Triggered(true)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			ev, err := rows.Next(ctx)
			if err != nil {
				return
			}
			if ev.Kind == wire.Rows {
				for i := range ev.Batch.Len() {
					if text := triggerLine(ev.Batch, ev.Batch.Row(i)); text != "" {
						notes.Add(text)
					}
				}
				ev.Batch.Release()
			}
		}
	}()
	return func() {
		cancel()
		<-done
		_ = rows.Close()
	}
}

// triggerLine formats a row of a trigger's stream as one line; "" for a NOTIFY.
func triggerLine(b *batch.Batch, row int) string {
	trigger, n, action, what := b.Cols[1].Value(row).S, b.Cols[2].Value(row).I, b.Cols[3].Value(row).S, b.Cols[4].Value(row).S
	if strings.HasPrefix(action, "NOTIFY ") {
		return ""
	}
	return fmt.Sprintf("%s #%d %s: %s", trigger, n, action, what)
}

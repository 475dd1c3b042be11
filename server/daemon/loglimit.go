package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"
)

// limited is a log handler for lines that others can cause: users, and whoever can
// connect. Of lines with one message that are caused by one user, or else by one address,
// logLines are passed in each logPeriod. How many more there were is one line at the end
// of the period.
//
// What users have executed does not pass through it: see grant.Account.LogWait.
type limited struct {
	slog.Handler
	of   *logLimits
	from string // the cause, if With has set it
}

const (
	logPeriod = 10 * time.Second
	logLines  = 10 // of one message and cause
	logCauses = 1000
)

// logLimits are the counts of the current period. It is safe for concurrent use.
type logLimits struct {
	only string // the only message that is limited; "": all are

	mu     sync.Mutex
	counts map[logKey]*logCount
	timer  *time.Timer // ends the period; nil: there is none
	closed bool
}

type logKey struct{ message, from string }

type logCount struct {
	passed, left int
	last         slog.Record  // of those left out: its time and level
	to           slog.Handler // with the attributes of the logger
}

// limit returns a handler that passes lines to h, and a function that writes what was
// counted so far; afterwards nothing is limited.
func limit(h slog.Handler, only string) (slog.Handler, func()) {
	l := &logLimits{only: only, counts: map[logKey]*logCount{}}
	return limited{h, l, ""}, l.close
}

// Handle implements slog.Handler.
func (l limited) Handle(ctx context.Context, r slog.Record) error {
	from := l.from
	r.Attrs(func(a slog.Attr) bool {
		if c := cause(a); c != "" {
			from = c
		}
		return true
	})
	if !l.of.pass(logKey{r.Message, from}, r, l.Handler) {
		return nil
	}
	return l.Handler.Handle(ctx, r)
}

// cause returns the user or address that an attribute names.
func cause(a slog.Attr) string {
	switch a.Key {
	case "user":
		return a.Value.String()
	case "peer":
		host, _, err := net.SplitHostPort(a.Value.String())
		if err != nil {
			return a.Value.String()
		}
		return host
	}
	return ""
}

// WithAttrs implements slog.Handler. A user is a cause before an address.
func (l limited) WithAttrs(attrs []slog.Attr) slog.Handler {
	from, named := l.from, false
	for _, a := range attrs {
		if c := cause(a); c != "" && !named {
			from, named = c, a.Key == "user"
		}
	}
	return limited{l.Handler.WithAttrs(attrs), l.of, from}
}

// WithGroup implements slog.Handler.
func (l limited) WithGroup(name string) slog.Handler {
	return limited{l.Handler.WithGroup(name), l.of, l.from}
}

// pass counts a line and reports whether it is within the limit.
func (l *logLimits) pass(k logKey, r slog.Record, to slog.Handler) bool {
	if l.only != "" && r.Message != l.only {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return true
	}
	if l.counts[k] == nil && len(l.counts) >= logCauses {
		k.from = "others" // an attacker may have many addresses
	}
	c := l.counts[k]
	if c == nil {
		c = &logCount{to: to}
		l.counts[k] = c
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(logPeriod, l.endPeriod)
	}
	if c.passed < logLines {
		c.passed++
		return true
	}
	c.left++
	c.last, c.to = r, to
	return false
}

// endPeriod writes what was left out in a period.
func (l *logLimits) endPeriod() {
	l.mu.Lock()
	counts := l.counts
	l.counts, l.timer = map[logKey]*logCount{}, nil
	l.mu.Unlock()
	for k, c := range counts {
		if c.left == 0 {
			continue
		}
		text := fmt.Sprintf("%d similar messages left out", c.left)
		if c.left == 1 {
			text = "1 similar message left out"
		}
		r := slog.NewRecord(c.last.Time, c.last.Level, text, 0)
		r.AddAttrs(slog.String("message", k.message), slog.String("from", k.from))
		_ = c.to.Handle(context.Background(), r)
	}
}

// close ends the last period.
func (l *logLimits) close() {
	l.mu.Lock()
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
	l.mu.Unlock()
	l.endPeriod()
}

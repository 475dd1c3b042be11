package answer

import (
	"context"
	"fmt"
	"io"
	"time"

	"endoscope/server/wire"
)

// Message answers a statement without rows.
type Message struct {
	text    string
	Notices []string
	began   time.Time
}

func (r *Message) Columns() []wire.Column { return nil }

func (r *Message) Message() string { return r.text }

func (*Message) Info() wire.Info { return wire.Info{} }

func (r *Message) Stop() {}

func (r *Message) Close() error { return nil }

func (r *Message) Summary() wire.Summary { return wire.Summary{Elapsed: time.Since(r.began)} }

func (r *Message) Next(context.Context) (wire.Event, error) {
	if len(r.Notices) > 0 {
		text := r.Notices[0]
		r.Notices = r.Notices[1:]
		return wire.Event{Kind: wire.Notice, Text: text}, nil
	}
	return wire.Event{}, io.EOF
}

// Messagef returns a message.
func Messagef(format string, args ...any) *Message {
	return &Message{text: fmt.Sprintf(format, args...), began: time.Now()}
}

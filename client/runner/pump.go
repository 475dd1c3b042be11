package runner

import (
	"context"
	"errors"
	"io"

	"endoscope/server/wire"
)

// step is one thing that the pump has to tell: that the statement was accepted
// (res), an event, or how it ended (err, io.EOF if well).
type step struct {
	res wire.Result
	ev  wire.Event
	err error
}

// pump executes a statement (or begins another result) and sends what comes of it, then closes steps. The
// result is at its end, or closed, before steps is. When ctx is done it gives
// up.
func pump(ctx context.Context, execute func(context.Context) (wire.Result, error), steps chan<- step) {
	defer close(steps)
	res, err := execute(ctx)
	if err != nil {
		send(ctx, steps, step{err: err})
		return
	}
	if !send(ctx, steps, step{res: res}) {
		_ = res.Close() // abandoned: nobody is left to tell
		return
	}
	for {
		ev, err := res.Next(ctx)
		if errors.Is(err, io.EOF) {
			send(ctx, steps, step{err: io.EOF})
			return
		}
		if err != nil {
			closeErr := res.Close()
			send(ctx, steps, step{err: errors.Join(err, closeErr)})
			return
		}
		if !send(ctx, steps, step{ev: ev}) {
			drop(step{ev: ev})
			_ = res.Close()
			return
		}
	}
}

func send(ctx context.Context, steps chan<- step, st step) bool {
	select {
	case steps <- st:
		return true
	case <-ctx.Done():
		return false
	}
}

// drop lets go of a step that nobody will show.
func drop(st step) {
	if st.ev.Batch != nil {
		st.ev.Batch.Release()
	}
}

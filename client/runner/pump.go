package runner

import (
	"context"
	"errors"
	"io"

	"endoscope/server/wire"
)

// step is a report of the pump: the statement was accepted (res), an event, the end of
// the result (over), or an error.
type step struct {
	res  wire.Result
	ev   wire.Event
	over bool
	err  error
}

// pump executes a statement (or starts another result) and sends its steps, then
// closes steps. The result has ended or is closed before that. If ctx is done, pump
// gives up.
func pump(ctx context.Context, execute func(context.Context) (wire.Result, error), steps chan<- step) {
	defer close(steps)
	res, err := execute(ctx)
	if err != nil {
		send(ctx, steps, step{err: err})
		return
	}
	if !send(ctx, steps, step{res: res}) {
		_ = res.Close() // abandoned: there is no receiver
		return
	}
	for {
		ev, err := res.Next(ctx)
		if err == io.EOF {
			send(ctx, steps, step{over: true})
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

// drop releases a step that will not be shown.
func drop(st step) {
	if st.ev.Batch != nil {
		st.ev.Batch.Release()
	}
}

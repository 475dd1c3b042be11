package wire

import "context"

// Step is an event of a result, or the error that ended it (io.EOF at its end).
type Step struct {
	Event Event
	Err   error
}

// Drop releases the rows of a step that is not used.
func (st Step) Drop() {
	if st.Event.Batch != nil {
		st.Event.Batch.Release()
	}
}

// Pump sends the steps of a result up to its end, or until ctx is done, and closes
// steps. It lets a goroutine wait for a result and for something else at once.
func Pump(ctx context.Context, res Result, steps chan<- Step) {
	defer close(steps)
	for {
		ev, err := res.Next(ctx)
		st := Step{ev, err}
		if ctx.Err() != nil { // the receiver may have room, but does not use it
			st.Drop()
			return
		}
		select {
		case steps <- st:
		case <-ctx.Done():
			st.Drop()
			return
		}
		if err != nil {
			return
		}
	}
}

package remote

import (
	"context"
	"io"
	"sync"

	"endoscope/planner/types"
	"endoscope/server/wire"
)

// triggered is Session.Triggered: a result that is requested when it is first read.
type triggered struct {
	s     *session
	which string

	mu      sync.Mutex
	res     *result
	err     error
	stopped bool
}

// Columns are the same for every server.
func (t *triggered) Columns() []wire.Column {
	return []wire.Column{{Name: "timestamp", Type: types.Timestamp}, {Name: "trigger", Type: types.Varchar},
		{Name: "activation", Type: types.Bigint}, {Name: "action", Type: types.Varchar}, {Name: "row", Type: types.Varchar}}
}

func (t *triggered) Message() string { return "" }

func (*triggered) Info() wire.Info { return wire.Info{} }

func (t *triggered) begin(ctx context.Context) (*result, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.stopped:
		return nil, io.EOF
	case t.res == nil && t.err == nil:
		t.res, t.err = t.s.begin(ctx, wire.Statement{Triggered: t.which})
	}
	return t.res, t.err
}

func (t *triggered) Next(ctx context.Context) (wire.Event, error) {
	res, err := t.begin(ctx)
	if err != nil {
		return wire.Event{}, err
	}
	return res.Next(ctx)
}

// started returns the result if it was requested.
func (t *triggered) started() *result {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = t.res == nil
	return t.res
}

func (t *triggered) Stop() {
	if res := t.started(); res != nil {
		res.Stop()
	}
}

func (t *triggered) Close() error {
	if res := t.started(); res != nil {
		return res.Close()
	}
	return nil
}

func (t *triggered) Summary() wire.Summary {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.res == nil {
		return wire.Summary{}
	}
	return t.res.Summary()
}

package fleet

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"endoscope/server/wire"
)

// aligned is a result that waits until the hosts have progressed far enough for its
// next rows. It is common to the results that order rows by time or merge them
// repeatedly.
type aligned struct {
	*gathered
	tick *time.Ticker
	out  []wire.Event // to be returned next
	over bool         // all hosts are through
	due  bool         // settle must look at all hosts: one of them may be silent

	returned atomic.Uint64 // rows of results
	late     atomic.Uint64 // what came too late: rows, or groups of windows or sessions
	rushed   atomic.Uint64 // what did not wait for hosts that were too far behind: rows, windows or sessions
}

// alignment is the part in which aligned results differ.
type alignment interface {
	// accept receives an event of a host, whose rows it must release, or the host's
	// end.
	accept(ctx context.Context, x hostEvent) error
	// settle moves what is ready to out.
	settle(ctx context.Context) error
}

// advance implements Next.
func (p *aligned) advance(ctx context.Context, how alignment) (wire.Event, error) {
	if p.tick == nil {
		p.tick = time.NewTicker(patience / 8)
	}
	for {
		if ev, ok := p.nextNote(); ok {
			return ev, nil
		}
		if len(p.out) > 0 {
			ev := p.out[0]
			p.out = p.out[1:]
			return ev, nil
		}
		if err := how.settle(ctx); err != nil {
			return wire.Event{}, err
		}
		if len(p.out) > 0 || len(p.notes) > 0 {
			continue
		}
		if p.over {
			return wire.Event{}, io.EOF
		}
		x, err := p.next(ctx, p.tick.C)
		switch {
		case errors.Is(err, errLate):
			p.due = true
		case err == io.EOF:
			p.over, p.due = true, true
		case err != nil:
			return wire.Event{}, err
		case x.ev.Kind == wire.Notice:
			p.out = append(p.out, x.ev)
		default:
			if err := how.accept(ctx, x); err != nil {
				return wire.Event{}, err
			}
		}
	}
}

func (p *aligned) Close() error {
	err := p.gathered.Close()
	if p.tick != nil {
		p.tick.Stop()
	}
	for _, ev := range p.out {
		if ev.Batch != nil {
			ev.Batch.Release()
		}
	}
	p.out = nil
	return err
}

package fleet

import (
	"context"
	"errors"
	"io"
	"time"

	"endoscope/server/wire"
)

// paced is a result that waits until the hosts have progressed far enough for its
// next rows. It is common to the results that order rows by time or merge them
// repeatedly.
type paced struct {
	*gathered
	tick *time.Ticker
	out  []wire.Event // to be returned next
	over bool         // all hosts are through
}

// pacing is the part in which paced results differ.
type pacing interface {
	// accept receives an event of a host, whose rows it must release, or the host's
	// end.
	accept(ctx context.Context, x given) error
	// settle moves what is ready to out.
	settle(ctx context.Context) error
}

// advance implements Next.
func (p *paced) advance(ctx context.Context, how pacing) (wire.Event, error) {
	if p.tick == nil {
		p.tick = time.NewTicker(patience / 8)
	}
	for {
		if ev, ok := p.noted(); ok {
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
		case err == io.EOF:
			p.over = true
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

func (p *paced) Close() error {
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

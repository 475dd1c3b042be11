package replay

import (
	"context"
	"sync"

	"endoscope/planner/plan"
	"endoscope/probes"
)

// source runs a producer on a goroutine of its own, from Start until Stop, the
// end of the context, or the end of the data. Only that goroutine uses the sink.
type source struct {
	probes.Base
	site    probes.Site
	filter  plan.Expr // left to the engine
	produce func(sink probes.Sink, stop <-chan struct{}) error

	mu     sync.Mutex // guards the fields below
	cancel context.CancelFunc
	ended  chan struct{} // closed when the goroutine has ended
}

// Info implements probes.Source. Nothing is lost while the source is blocked.
func (s *source) Info() probes.Info {
	return probes.Info{Sites: []probes.Site{s.site}, Residual: s.filter}
}

// Start implements probes.Source. The stream ends when ctx does.
func (s *source) Start(ctx context.Context, sink probes.Sink, _ probes.Options) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	running, cancel := context.WithCancel(ctx)
	s.cancel, s.ended = cancel, make(chan struct{})
	go func() {
		defer close(s.ended)
		defer cancel()
		err := s.produce(sink, running.Done())
		if err == nil {
			err = ctx.Err()
		}
		sink.End(err)
	}()
	return nil
}

// Stop ends the stream after the current batch.
func (s *source) Stop() error {
	s.mu.Lock()
	cancel, ended := s.cancel, s.ended
	s.mu.Unlock()
	if cancel != nil {
		cancel()
		<-ended
	}
	return nil
}

// stopped reports whether a channel was closed.
func stopped(stop <-chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}

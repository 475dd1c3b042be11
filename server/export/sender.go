package export

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// sender sends an export's metrics and spans, in a goroutine of its own. Of metrics, which
// are cumulative, only the latest ones wait; spans wait in a queue, which drops and counts
// when it is full. A request is tried again until it is accepted, or refused for good.
type sender struct {
	e         *Export
	transport transport

	mu      sync.Mutex
	figures *Snapshot // the latest, not sent yet
	spans   []*span   // not sent yet
	wake    chan struct{}

	ctx    context.Context // ends with the export
	cancel context.CancelFunc
	closed chan struct{} // closed when nothing more will be queued
	done   chan struct{}

	sent        atomic.Uint64
	rejected    atomic.Uint64
	full        atomic.Uint64 // spans dropped because the queue was full
	undelivered atomic.Uint64 // spans refused, or left when the export ended
	lastError   lastError
}

const (
	spansInRequest = 512
	pauseFirst     = 250 * time.Millisecond
	pauseLast      = 30 * time.Second
	// graceAtDrop is how long a dropped export goes on to send what is left.
	graceAtDrop = 2 * time.Second
	// healthEvery is the interval at which an export of spans reports on itself.
	healthEvery = 10 * time.Second
)

func newSender(e *Export, t transport) *sender {
	s := &sender{e: e, transport: t, wake: make(chan struct{}, 1), closed: make(chan struct{}), done: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// setMetrics replaces the metrics that wait. It does not block.
func (s *sender) setMetrics(shot *Snapshot) {
	s.mu.Lock()
	s.figures = shot
	s.mu.Unlock()
	s.signal()
}

// addSpans queues spans. Those for which there is no room are dropped.
func (s *sender) addSpans(spans []*span) {
	s.mu.Lock()
	n := min(len(spans), max(0, s.e.Plan.Options.Queue-len(s.spans)))
	s.spans = append(s.spans, spans[:n]...)
	s.mu.Unlock()
	s.full.Add(uint64(len(spans) - n))
	s.signal()
}

func (s *sender) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// next takes what is sent next; nil if nothing waits.
func (s *sender) next() (*Snapshot, []*span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	shot := s.figures
	s.figures = nil
	n := min(len(s.spans), spansInRequest)
	spans := s.spans[:n:n]
	if s.spans = s.spans[n:]; len(s.spans) == 0 {
		s.spans = nil
	}
	return shot, spans
}

func (s *sender) run() {
	defer close(s.done)
	defer s.transport.close()
	health := time.NewTicker(healthEvery)
	defer health.Stop()
	closed := s.closed
	for {
		shot, spans := s.next()
		switch {
		case shot != nil || len(spans) > 0:
			if shot != nil {
				s.deliverMetrics(shot)
			}
			if len(spans) > 0 {
				s.deliverSpans(spans)
			}
			continue
		case closed == nil:
			return
		}
		select {
		case <-s.wake:
		case <-health.C:
			if s.e.calls != nil {
				s.deliverMetrics(&Snapshot{At: time.Now().UnixNano(), Began: s.e.Created.UnixNano()})
			}
		case <-closed:
			closed = nil
		}
	}
}

// finish sends what is left, unless that takes too long.
func (s *sender) finish() {
	close(s.closed)
	select {
	case <-s.done:
	case <-time.After(graceAtDrop):
	}
	s.cancel()
	<-s.done
}

// deliverMetrics sends metrics. When newer ones wait, these are given up: the newer ones say
// more.
func (s *sender) deliverMetrics(shot *Snapshot) {
	points := uint64(max(shot.Len(), 1) * max(len(s.e.Plan.Metrics), 1))
	accepted, err := s.try(points, func(ctx context.Context) (int64, error) {
		return s.transport.metrics(ctx, s.e, shot)
	}, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.figures != nil
	})
	if err == nil {
		s.sent.Add(accepted)
	}
}

func (s *sender) deliverSpans(spans []*span) {
	accepted, err := s.try(uint64(len(spans)), func(ctx context.Context) (int64, error) {
		return s.transport.traces(ctx, s.e, spans)
	}, func() bool { return false })
	if err == nil {
		s.sent.Add(accepted)
	} else {
		s.undelivered.Add(uint64(len(spans)))
	}
}

// try sends n points or spans until the receiver accepts, or refuses permanently, or the
// request is superseded. It returns how many were accepted; the others are counted as refused.
func (s *sender) try(n uint64, send func(context.Context) (rejected int64, err error), superseded func() bool) (accepted uint64, err error) {
	for pause := pauseFirst; ; pause = min(2*pause, pauseLast) {
		ctx, cancel := context.WithTimeout(s.ctx, s.e.Plan.Options.Timeout)
		rejected, err := send(ctx)
		cancel()
		if err == nil {
			refused := min(uint64(max(rejected, 0)), n)
			s.rejected.Add(refused)
			return n - refused, nil
		}
		s.lastError.set(err)
		if s.ctx.Err() != nil || errors.As(err, new(permanent)) {
			return 0, err
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-s.ctx.Done():
			return 0, err
		}
		if superseded() {
			return 0, err
		}
	}
}

package uprobe

import "endoscope/probes/ringbuf"

// ring is the consumer of the ring buffer of all queries, and how it sleeps. It
// has one user, who must not call it concurrently; only Wake may be called from
// elsewhere.
//
// The kernel submits without waking anybody unless much is waiting.
type ring struct {
	*ringbuf.Ring
	*ringbuf.Waiter
}

func newRing(mapFD, size int) (*ring, error) {
	mapped, err := ringbuf.Map(mapFD, size)
	if err != nil {
		return nil, err
	}
	waiter, err := ringbuf.NewWaiter(mapFD)
	if err != nil {
		mapped.Unmap()
		return nil, err
	}
	return &ring{mapped, waiter}, nil
}

func (r *ring) close() {
	r.Waiter.Close()
	r.Unmap()
}

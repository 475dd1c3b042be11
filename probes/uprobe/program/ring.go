package program

import "endoscope/probes/ringbuf"

// Ring is the consumer of the ring buffer of all queries, and how it sleeps. It
// has one user, who must not call it concurrently; only Wake may be called from
// elsewhere.
//
// The kernel submits without waking anybody unless much is waiting.
type Ring struct {
	*ringbuf.Ring
	*ringbuf.Waiter
}

func NewRing(mapFD, size int) (*Ring, error) {
	mapped, err := ringbuf.Map(mapFD, size)
	if err != nil {
		return nil, err
	}
	waiter, err := ringbuf.NewWaiter(mapFD)
	if err != nil {
		mapped.Unmap()
		return nil, err
	}
	return &Ring{mapped, waiter}, nil
}

func (r *Ring) Close() {
	r.Waiter.Close()
	r.Unmap()
}

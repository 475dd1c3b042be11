package program

import "endoscope/probes/ringbuf"

// Ring is the consumer of the ring buffer of all queries, with its waiter. It is not
// safe for concurrent use, except for Wake.
//
// The kernel submits records without waking the reader unless much is waiting.
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

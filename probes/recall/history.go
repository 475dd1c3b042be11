package recall

// past is what a recalled ring held, without gaps from since to until (boot clock).
type past struct {
	events       []Event
	since, until int64
}

// history keeps the events of recalled rings for the next firing of the same sequences, as
// many as there is room for.
type history struct {
	room    int // in events
	events  int
	byClaim map[uint64]past
	order   []uint64 // claims by age; some may have been taken
}

// put keeps the events of a claim, and drops the oldest ones if there is no room.
func (h *history) put(claim uint64, p past) {
	if h.byClaim == nil {
		h.byClaim = map[uint64]past{}
	}
	h.byClaim[claim] = p
	h.order = append(h.order, claim)
	for h.events += len(p.events) + 1; h.events > h.room && len(h.order) > 1; h.order = h.order[1:] {
		h.take(h.order[0])
	}
	if len(h.order) > 2*len(h.byClaim)+16 {
		kept := h.order[:0]
		for _, c := range h.order {
			if _, ok := h.byClaim[c]; ok {
				kept = append(kept, c)
			}
		}
		h.order = kept
	}
}

// take returns what is kept of a claim, and drops it.
func (h *history) take(claim uint64) (past, bool) {
	p, ok := h.byClaim[claim]
	if ok {
		delete(h.byClaim, claim)
		h.events -= len(p.events) + 1
	}
	return p, ok
}

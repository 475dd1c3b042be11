package stack

// How much of a thread's stack is copied with a sample: usually usualBytes
// (stack.bpf.c). A thread whose frames lie further up is read page by page when it
// is unwound, which costs more and may come too late: it gets more room at once. One
// whose frames take less gets less after a while: most threads do the same again and
// again, and copying is what a sample costs most.
const (
	usualBytes = 2 << 12
	maxBytes   = 32 << 12
	leastBytes = 1 << 9 // and the step
	steady     = 16     // samples after which there is less
)

// room is how much of a thread's stack is copied.
type room struct {
	bytes   uint32 // 0: usualBytes
	peak    uint32 // what was used of it at most
	samples uint8  // since when
}

func (r *room) size() uint32 {
	if r.bytes == 0 {
		return usualBytes
	}
	return r.bytes
}

// full reports whether no more can be copied.
func (r *room) full() bool { return r.size() == maxBytes }

// next is the room for the next sample after one whose frames lay in so many bytes,
// and whether some of these were missing.
func (r *room) next(used uint32, missing bool) uint32 {
	now := r.size()
	switch {
	case missing && !r.full(), r.full() && used <= maxBytes/4:
		r.peak, r.samples = 0, 0
		return min(max(2*used, usualBytes), maxBytes)
	case r.full():
		return now
	}
	r.peak = max(r.peak, used)
	if r.samples++; r.samples < steady {
		return now
	}
	fits := max(2*r.peak+leastBytes-1, leastBytes) / leastBytes * leastBytes
	r.peak, r.samples = 0, 0
	if fits <= now/2 {
		return fits
	}
	return now
}

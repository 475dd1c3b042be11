package stack

// The number of bytes of a thread's stack copied with a sample starts at usualBytes
// (stack.bpf.c). If frames lie further up, the unwinder reads them page by page, which
// costs more and may be too late: the thread's room grows at once. If a thread's
// frames need less, its room shrinks after a while: most threads repeat the same work,
// and copying is the largest cost of a sample.
const (
	usualBytes = 2 << 12
	maxBytes   = 32 << 12
	leastBytes = 1 << 9 // minimum and step
	steady     = 16     // samples before the room shrinks
)

// room is the number of bytes copied of a thread's stack.
type room struct {
	bytes   uint32 // 0: usualBytes
	peak    uint32 // maximum number of bytes used
	samples uint8  // samples since peak was reset
}

func (r *room) size() uint32 {
	if r.bytes == 0 {
		return usualBytes
	}
	return r.bytes
}

// full reports whether room cannot grow.
func (r *room) full() bool { return r.size() == maxBytes }

// next returns the room for the next sample, after a sample whose frames lay in used
// bytes; missing says that some of these were not copied.
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

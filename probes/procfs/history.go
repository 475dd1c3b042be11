package procfs

import "time"

// window is the time that rates cover, and its resolution.
type window struct {
	length time.Duration
	gap    time.Duration // of readings closer together than this only one is kept
	slack  time.Duration // a reading younger than the window by at most this is old enough
	slots  int
}

// divisions limits the readings kept of a window: with a sampler far faster
// than the window, a rate may cover 1/divisions more than it.
const divisions = 64

func newWindow(every, rate time.Duration) window {
	w := window{length: max(every, rate)}
	step := max(every, w.length/divisions)
	w.gap = step - every/2 // ticks jitter
	w.slack = every / 2
	w.slots = int(w.length/w.gap) + 2
	return w
}

// warmup returns the number of ticks before rates cover the window.
func (w window) warmup(every time.Duration) int64 {
	return int64((w.length + every - 1) / every)
}

// history keeps the readings of one counter, or set of counters, for the rate
// window. The zero value is empty.
type history[T any] struct {
	at    []int64 // a ring buffer
	value []T
	first int
	n     int
}

// base adds a reading and returns the one that its rate is computed from: the
// latest that is as old as the window, or else the oldest; false for the first
// reading.
func (h *history[T]) base(w window, at int64, v T) (then int64, value T, ok bool) {
	if h.at == nil {
		h.at, h.value = make([]int64, w.slots), make([]T, w.slots)
	}
	due := at - int64(w.length-w.slack)
	for h.n > 1 && h.at[h.slot(1)] <= due {
		h.first = h.slot(1)
		h.n--
	}
	if h.n > 0 {
		then, value, ok = h.at[h.first], h.value[h.first], true
	}
	if h.n == 0 || at-h.at[h.slot(h.n-1)] >= int64(w.gap) {
		if h.n == len(h.at) { // ticks came early; the oldest is old enough
			h.first = h.slot(1)
			h.n--
		}
		h.at[h.slot(h.n)], h.value[h.slot(h.n)] = at, v
		h.n++
	}
	return then, value, ok
}

func (h *history[T]) slot(i int) int { return (h.first + i) % len(h.at) }

// perSecond returns the rate of a counter, 0 if it decreased.
func perSecond(then, now uint64, elapsed int64) float64 {
	if now <= then || elapsed <= 0 {
		return 0
	}
	return float64(now-then) / (float64(elapsed) / 1e9)
}

package debuginfo

import (
	"runtime"
	"sync"
	"time"
)

// held is that of the debug information of all modules together.
var held = &budget{limit: 2 << 30}

// budget is how many bytes may be held.
type budget struct {
	mu    sync.Mutex
	limit uint64
	taken uint64
}

// take reserves n bytes. If they do not fit, what nobody uses any more is collected first.
func (b *budget) take(n uint64) bool {
	for range 5 {
		if b.fits(n) {
			return true
		}
		runtime.GC()
		time.Sleep(10 * time.Millisecond) // in which cleanups run, which call give
	}
	return b.fits(n)
}

func (b *budget) fits(n uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.taken+n > b.limit {
		return false
	}
	b.taken += n
	return true
}

// give returns n bytes.
func (b *budget) give(n uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken -= n
}

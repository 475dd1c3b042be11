package debuginfo

import (
	"runtime"
	"sync"
	"time"
)

// memory limits the debug information of all modules together.
var memory = &budget{limit: 2 << 30}

// budget is a limit in bytes.
type budget struct {
	mu    sync.Mutex
	limit uint64
	taken uint64
}

// reserve reserves n bytes. If they do not fit, it runs the garbage collector
// to free unreferenced debug information first.
func (b *budget) reserve(n uint64) bool {
	for range 5 {
		if b.fits(n) {
			return true
		}
		runtime.GC()
		time.Sleep(10 * time.Millisecond) // in which cleanups run, which call release
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

// release returns n bytes.
func (b *budget) release(n uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken -= n
}

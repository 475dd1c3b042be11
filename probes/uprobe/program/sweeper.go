package program

import (
	"fmt"
	"os"
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"

	"endoscope/probes/bpf"
	"endoscope/probes/process"
)

// sweeper removes entries from the kernel's tables that were left by processes that
// ended during calls. An entry left by an abandoned call of a living process is replaced
// by the next call in its frame.
type sweeper struct {
	Calls, goroutines *ebpf.Map
	stacks            *ebpf.Map // nil without coroutines
	Every             uint64    // calls without return between two sweeps

	// Owned by the reader: calls that had not returned when the last sweep began, and
	// calls that had found no room by then.
	swept, overflown uint64
	busy             atomic.Bool
	sweeps           sync.WaitGroup
}

// newSweeper returns nil where there is nothing to sweep.
func newSweeper(objects *ebpf.Collection) *sweeper {
	calls := objects.Maps[bpf.FunctionMapOpenCalls]
	if calls == nil {
		return nil
	}
	return &sweeper{Calls: calls, goroutines: objects.Maps[bpf.FunctionMapGoroutines], stacks: objects.Maps[bpf.FunctionMapStacks], Every: uint64(calls.MaxEntries()) / 4}
}

// Consider starts a sweep if there may be much to remove: many calls have not returned,
// or others found no room. The reader calls it once a second, and does not wait.
func (w *sweeper) Consider(c bpf.FunctionCounters) {
	if w == nil {
		return
	}
	armed, returned := Awaited(&c)
	open := armed - min(returned, armed) // the two are not read atomically
	w.swept = min(w.swept, open)
	if open < w.swept+w.Every && c.Overflown == w.overflown || !w.busy.CompareAndSwap(false, true) {
		return
	}
	w.swept, w.overflown = open, c.Overflown
	w.sweeps.Go(func() {
		w.sweep()
		w.busy.Store(false)
	})
}

// Wait waits for a running sweep.
func (w *sweeper) Wait() {
	if w != nil {
		w.sweeps.Wait()
	}
}

func (w *sweeper) sweep() {
	p := processes{}
	pruneCalls(w.Calls, func(f bpf.FunctionFrame, c *bpf.FunctionPending) bool { return !p.has(f.Tgid, c.M.Start) })
	Prune(w.goroutines, func(g bpf.FunctionGoroutine, o bpf.FunctionOwner) bool { return !p.has(uint32(g.Tgid), o.Born) })
	if w.stacks != nil {
		Prune(w.stacks, func(l bpf.FunctionLeft, s bpf.FunctionSuspended) bool { return !p.has(uint32(l.Tgid), s.Born) })
	}
}

// Forget removes all calls under way. Nothing is attached: their returns are not
// observed, and other calls begin in their frames.
func (w *sweeper) Forget() {
	if w == nil {
		return
	}
	pruneCalls(w.Calls, func(bpf.FunctionFrame, *bpf.FunctionPending) bool { return true })
	Prune(w.goroutines, func(bpf.FunctionGoroutine, bpf.FunctionOwner) bool { return true })
	if w.stacks != nil {
		Prune(w.stacks, func(bpf.FunctionLeft, bpf.FunctionSuspended) bool { return true })
	}
}

// Prune deletes the entries of a map for which dead returns true.
func Prune[K, V any](m *ebpf.Map, dead func(K, V) bool) {
	values := make([]V, pruned)
	pruneAll(m, values, func(i int, k K) bool { return dead(k, values[i]) })
}

// pruneCalls is Prune for calls under way, whose values are followed by texts in some
// queries.
func pruneCalls(m *ebpf.Map, dead func(bpf.FunctionFrame, *bpf.FunctionPending) bool) {
	size := int(m.ValueSize())
	values := reflect.MakeSlice(reflect.SliceOf(reflect.ArrayOf(size, reflect.TypeFor[byte]())), pruned, pruned)
	first := values.UnsafePointer()
	pruneAll(m, values.Interface(), func(i int, f bpf.FunctionFrame) bool {
		return dead(f, (*bpf.FunctionPending)(unsafe.Add(first, i*size)))
	})
}

// pruned is how many entries are read at a time.
const pruned = 1024

// pruneAll deletes the entries of a map for which dead returns true. values is a slice
// that is filled before dead is called for index i.
func pruneAll[K any](m *ebpf.Map, values any, dead func(i int, k K) bool) {
	keys := make([]K, pruned)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookup(&cursor, keys, values, nil)
		for i := range n {
			if dead(i, keys[i]) {
				// The entry may just have been deleted.
				_ = m.Delete(&keys[i])
			}
		}
		if err != nil || n == 0 { // ErrKeyNotExist: the end
			return
		}
	}
}

// processes caches the start times of processes during a sweep, in boot time; 0 means
// the process does not exist.
type processes map[uint32]uint64

// tick is the unit of process.Process.StartTime (USER_HZ), in ns.
const tick = 10_000_000

// has reports whether the process that had a pid at a boot time still exists.
func (p processes) has(pid uint32, at uint64) bool {
	began, known := p[pid]
	if !known {
		if now, runs := process.Lookup(int(pid)); runs {
			began = now.StartTime * tick
		} else if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
			began = 1 // its leader has exited; other threads may run
		}
		p[pid] = began
	}
	return began != 0 && at >= began
}

package gate

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"endoscope/probes/clock"
)

// words is a gate in memory: struct gate in probes/bpf/gate.h. Times are of the
// boot clock, in ns. A gate fills a cache line.
type words struct {
	until  atomic.Uint64 // open up to here; 0: shut and resting
	forced atomic.Uint64 // open at any time if not 0
	opened atomic.Uint64 // total ns for which openers have opened it, forced or not
	times  atomic.Uint64 // how often they found it shut
	_      [4]uint64
}

const size = int(unsafe.Sizeof(words{}))

// Set is the gates of one query.
type Set struct {
	gates  []Gate
	kernel *ebpf.Map // nil: the gates are used by this process only
}

// Gate is one gate. Its methods are safe for concurrent use.
type Gate struct {
	*words
	Index int // in the map of its set
	// Wake receives a token when this process has opened or forced the gate.
	Wake chan struct{}
}

// NewSet creates n gates, shut. inKernel makes them accessible to eBPF
// programs.
func NewSet(n int, inKernel bool) (*Set, error) {
	s := &Set{gates: make([]Gate, n)}
	at := unsafe.Pointer(unsafe.SliceData(make([]words, n)))
	if inKernel {
		var err error
		s.kernel, err = ebpf.NewMap(&ebpf.MapSpec{Name: "gates", Type: ebpf.Array, Flags: unix.BPF_F_MMAPABLE, KeySize: 4, ValueSize: uint32(size), MaxEntries: uint32(n)})
		if err != nil {
			return nil, fmt.Errorf("gates in the kernel: %w", err)
		}
		mem, err := unix.Mmap(s.kernel.FD(), 0, n*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			s.kernel.Close()
			return nil, fmt.Errorf("gates in the kernel: %w", err)
		}
		at = unsafe.Pointer(unsafe.SliceData(mem))
		// A gate may be read after Close: the memory is unmapped with the last
		// reference.
		runtime.AddCleanup(unsafe.SliceData(s.gates), func(mem []byte) { _ = unix.Munmap(mem) }, mem)
	}
	for i := range s.gates {
		s.gates[i] = Gate{(*words)(unsafe.Add(at, i*size)), i, make(chan struct{}, 1)}
	}
	return s, nil
}

// Gate returns the i'th gate.
func (s *Set) Gate(i int) *Gate { return &s.gates[i] }

// Map returns the map in which eBPF programs find the gates, by their indexes;
// nil if they cannot.
func (s *Set) Map() *ebpf.Map { return s.kernel }

// Close releases the map, once the eBPF programs that use it are gone. The
// gates themselves remain readable.
func (s *Set) Close() error {
	if s.kernel == nil {
		return nil
	}
	err := s.kernel.Close()
	s.kernel = nil
	return err
}

// Admits reports whether a row of time t (of clock.Now, read before) may pass.
func (g *Gate) Admits(t int64) bool {
	return g.forced.Load() != 0 || uint64(max(0, t-clock.Offset())) <= g.until.Load()
}

// Open opens the gate from now on, at least until the time given, both of
// clock.Now.
func (g *Gate) Open(now, until int64) {
	from, to := uint64(max(0, now-clock.Offset())), uint64(max(0, until-clock.Offset()))
	for {
		was := g.until.Load()
		if was >= to {
			return
		}
		if g.until.CompareAndSwap(was, to) {
			if was < from {
				g.times.Add(1)
				was = from
			}
			if to > was {
				g.opened.Add(to - was)
			}
			g.wake()
			return
		}
	}
}

// Force holds the gate open, or returns it to its openers.
func (g *Gate) Force(yes bool) {
	var n uint64
	if yes {
		n = 1
	}
	g.forced.Store(n)
	if yes {
		g.wake()
	}
}

func (g *Gate) wake() {
	select {
	case g.Wake <- struct{}{}:
	default:
	}
}

// Forced reports whether the gate is held open.
func (g *Gate) Forced() bool { return g.forced.Load() != 0 }

// restAfter is how long a gate must be shut before Rest marks it: programs that
// read the clock before are done by then.
const restAfter = 2e9

// Rest marks a gate that has been shut for long, so that programs need not read
// the clock. now is of clock.Now.
func (g *Gate) Rest(now int64) {
	u := g.until.Load()
	if u != 0 && int64(u)+restAfter < now-clock.Offset() {
		g.until.CompareAndSwap(u, 0)
	}
}

// Opened returns the time in ns for which openers have opened the gate until
// now (of clock.Now), whether or not it was forced, and how often they found it
// shut.
func (g *Gate) Opened(now int64) (ns int64, times uint64) {
	until, sum := g.until.Load(), g.opened.Load()
	ahead := max(0, int64(until)-(now-clock.Offset()))
	return int64(sum) - ahead, g.times.Load()
}

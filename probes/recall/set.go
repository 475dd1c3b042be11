package recall

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"endoscope/probes/bpf"
	"endoscope/probes/ringbuf"
)

const (
	// RingEvents is the number of events in a ring.
	RingEvents = 4096

	eventBytes = int(unsafe.Sizeof(bpf.FunctionRecorded{}))
	ringBytes  = RingEvents * eventBytes
	headBytes  = int(unsafe.Sizeof(bpf.FunctionRing{}))

	// leastRings is the least number of rings that make sense: one is written while another
	// is read.
	leastRings = 4
	// reserved is the share of rings that only firings take.
	reserved = 8
	// firingBytes is the size of the buffer of firings that are not read yet.
	firingBytes = 1 << 16
	// maxRoutines limits the goroutines whose rings are known.
	maxRoutines = 1 << 14

	reading = 1 << 63
	never   = ^uint64(0)
)

// LeastBytes is the least memory of a Set.
const LeastBytes = int64(leastRings * (ringBytes + headBytes))

// Set is the memory of one RECALL.
type Set struct {
	maps     map[string]*ebpf.Map // by their names in the programs
	heads    []byte               // of the rings; the first one is the pool
	events   []byte               // of the rings
	firings  *ringbuf.Buffer
	count    int   // number of rings
	last     int64 // ns for which events are recalled
	offset   int64 // from the boot clock to the epoch
	kept     history
	reported Counts

	mu        sync.Mutex // guards the following
	summaries map[uint64]Summary
	left      []string // functions that are left out
	leftAt    int64    // when the first was, ns since the epoch; 0: none is
}

// RingsOf returns the number of rings in so many bytes.
func RingsOf(bytes int64) int { return int(bytes) / (ringBytes + headBytes) }

// New returns a set whose rings take so many bytes. last is how far back a firing looks, in
// ns; offset is that from the boot clock to the epoch.
func New(bytes, last, offset int64) (_ *Set, err error) {
	s := &Set{maps: map[string]*ebpf.Map{}, count: RingsOf(bytes), last: last, offset: offset, summaries: map[uint64]Summary{}}
	if s.count < leastRings {
		return nil, fmt.Errorf("recall: %d bytes are less than %d", bytes, LeastBytes)
	}
	s.kept.room = s.count * RingEvents
	defer func() {
		if err != nil {
			err = fmt.Errorf("memory for recorded calls: %w", err)
			s.Close()
		}
	}()
	words := &btf.Array{Index: &btf.Int{Name: "unsigned int", Size: 4}, Type: &btf.Int{Name: "unsigned long", Size: 8}, Nelems: uint32(unsafe.Sizeof(bpf.FunctionHolder{}) / 8)}
	for _, m := range []ebpf.MapSpec{
		{Name: bpf.FunctionMapRings, Type: ebpf.Array, Flags: unix.BPF_F_MMAPABLE, KeySize: 4, ValueSize: uint32(headBytes), MaxEntries: uint32(1 + s.count)},
		{Name: bpf.FunctionMapRecordings, Type: ebpf.Array, Flags: unix.BPF_F_MMAPABLE, KeySize: 4, ValueSize: uint32(ringBytes), MaxEntries: uint32(1 + s.count)},
		{Name: bpf.FunctionMapHolders, Type: ebpf.TaskStorage, Flags: unix.BPF_F_NO_PREALLOC, KeySize: 4, ValueSize: uint32(unsafe.Sizeof(bpf.FunctionHolder{})), Key: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}, Value: words},
		{Name: bpf.FunctionMapRoutines, Type: ebpf.LRUHash, KeySize: uint32(unsafe.Sizeof(bpf.FunctionRoutine{})), ValueSize: uint32(unsafe.Sizeof(bpf.FunctionHolder{})), MaxEntries: maxRoutines},
		{Name: bpf.FunctionMapFirings, Type: ebpf.RingBuf, MaxEntries: firingBytes},
	} {
		made, err := ebpf.NewMap(&m)
		if err != nil {
			return nil, err
		}
		s.maps[m.Name] = made
	}
	if s.heads, err = mapped(s.maps[bpf.FunctionMapRings]); err != nil {
		return nil, err
	}
	if s.events, err = mapped(s.maps[bpf.FunctionMapRecordings]); err != nil {
		return nil, err
	}
	if s.firings, err = ringbuf.Open(s.maps[bpf.FunctionMapFirings].FD(), firingBytes); err != nil {
		return nil, err
	}
	for i := range s.count {
		s.head(1 + i).Last = never
	}
	return s, nil
}

// mapped maps the memory of an array.
func mapped(m *ebpf.Map) ([]byte, error) {
	value := (int(m.ValueSize()) + 7) &^ 7
	page := unix.Getpagesize()
	return unix.Mmap(m.FD(), 0, (value*int(m.MaxEntries())+page-1)&^(page-1), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

// head returns the head of a ring, by its number from 1.
func (s *Set) head(ring int) *bpf.FunctionRing {
	return (*bpf.FunctionRing)(unsafe.Pointer(&s.heads[ring*headBytes]))
}

func (s *Set) pool() *bpf.FunctionRecallPool {
	return (*bpf.FunctionRecallPool)(unsafe.Pointer(&s.heads[0]))
}

// ring returns the events of a ring, in the order of their places.
func (s *Set) ring(ring int) []bpf.FunctionRecorded {
	return unsafe.Slice((*bpf.FunctionRecorded)(unsafe.Pointer(&s.events[ring*ringBytes])), RingEvents)
}

// Maps returns the maps of the programs, by name.
func (s *Set) Maps() map[string]*ebpf.Map { return s.maps }

// Rings returns the number of rings, and how many of them only firings take.
func (s *Set) Rings() (count, reserve uint32) {
	return uint32(s.count), uint32(max(1, s.count/reserved))
}

// Close releases the memory. No program uses the set any more.
func (s *Set) Close() {
	if s == nil {
		return
	}
	if s.firings != nil {
		s.firings.Close()
	}
	for _, m := range [][]byte{s.heads, s.events} {
		if m != nil {
			_ = unix.Munmap(m)
		}
	}
	for _, m := range s.maps {
		m.Close()
	}
	s.heads, s.events, s.firings = nil, nil, nil
}

// Counts are the events that a Set counts.
type Counts struct {
	GivenAway uint64 // rings that were taken from a sequence for another
	Missed    uint64 // firings that found no free ring
	Untold    uint64 // firings that found no room among those not read yet
}

// News returns what was counted since the last call.
func (s *Set) News() Counts {
	p := s.pool()
	now := Counts{GivenAway: atomic.LoadUint64(&p.GivenAway), Missed: atomic.LoadUint64(&p.Missed), Untold: atomic.LoadUint64(&p.Untold)}
	old := s.reported
	s.reported = now
	return Counts{now.GivenAway - old.GivenAway, now.Missed - old.Missed, now.Untold - old.Untold}
}

package program

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"endoscope/probes/bpf"
	"endoscope/probes/ringbuf"
	"endoscope/probes/sysmon"
	"endoscope/probes/uprobe/abi"
)

// spendingMaps are the maps of queries with a budget (budget.h).
var spendingMaps = []string{bpf.FunctionMapPrices, bpf.FunctionMapSpent, bpf.FunctionMapMoved, bpf.FunctionMapAlarms}

// spendingStride is the distance between the counters of two CPUs, bytes, and limitAt that of
// its limit from a counter.
const spendingStride, limitAt = 64, 8

// priceBytes is the size of what there is of a function, and hitsAt where its hits are.
const priceBytes, hitsAt = 16, 8

// alarmBytes is the size of the ring of alarms.
const alarmBytes = 4096

// priceHits makes programs add up what hits cost, given the price of each function; without
// prices they do not.
func (k *Kernel) priceHits(prices []uint64, spec *ebpf.CollectionSpec, replace map[string]*ebpf.Map) error {
	if prices == nil {
		for _, name := range spendingMaps {
			replace[name] = k.unused[name]
		}
		return nil
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	spec.Maps[bpf.FunctionMapPrices].MaxEntries = uint32(max(1, len(prices)))
	spec.Maps[bpf.FunctionMapSpent].MaxEntries = uint32(cpus)
	spec.Maps[bpf.FunctionMapAlarms].MaxEntries = alarmBytes
	return spec.Variables[bpf.FunctionVarBudgeted].Set(true)
}

// spending is the memory in which programs add up what hits cost.
type spending struct {
	prices []byte // by function: its word, and its hits
	page   []byte // sums and limits by CPU
	cpus   int
	alarms *ringbuf.Buffer
	wakes  int // descriptor that is readable when there is an alarm
}

// Flags of words (budget.h).
const (
	retired     = 1 << 63
	moving      = 1 << 62
	newer       = 1 << 61
	firstMove   = 1 << 32
	moveNumbers = newer - firstMove
)

// word returns the word of a function.
func (s *spending) word(function int) *uint64 {
	return (*uint64)(unsafe.Pointer(&s.prices[priceBytes*function]))
}

// hits returns the number of hits of a function.
func (s *spending) hits(function int) *uint64 {
	return (*uint64)(unsafe.Pointer(&s.prices[priceBytes*function+hitsAt]))
}

// change replaces the word of a function.
func (in *Installation) change(function int, f func(word uint64) uint64) {
	for w := in.spending.word(function); ; {
		if old := atomic.LoadUint64(w); atomic.CompareAndSwapUint64(w, old, f(old)) {
			return
		}
	}
}

// Retire makes calls of a function count no longer, from this instant on.
func (in *Installation) Retire(function int) {
	in.change(function, func(w uint64) uint64 { return w | retired })
}

// Recall undoes Retire. No link has the function.
func (in *Installation) Recall(function int) {
	in.change(function, func(w uint64) uint64 { return w &^ retired })
}

// BeginMove says that a second link will have a function, and changes its generation. EndMove
// must follow, when the first link is closed.
func (in *Installation) BeginMove(function int) {
	in.change(function, func(w uint64) uint64 {
		return w&^moveNumbers ^ newer | (w+firstMove)&moveNumbers | moving
	})
}

// Generation returns the flag in the cookie of the next link that has a function.
func (in *Installation) Generation(function int) uint64 {
	if in.spending != nil && atomic.LoadUint64(in.spending.word(function))&newer != 0 {
		return abi.Generation
	}
	return 0
}

// EndMove says that only one link has a function.
func (in *Installation) EndMove(function int) {
	in.change(function, func(w uint64) uint64 { return w &^ moving })
}

// openSpending writes the prices, and maps the sums. It returns nil without prices.
func openSpending(objects *ebpf.Collection, prices []uint64) (*spending, error) {
	if prices == nil {
		return nil, nil
	}
	sums, alarms := objects.Maps[bpf.FunctionMapSpent], objects.Maps[bpf.FunctionMapAlarms]
	s := &spending{cpus: int(sums.MaxEntries()), wakes: alarms.FD()}
	var err error
	if s.prices, err = mapped(objects.Maps[bpf.FunctionMapPrices]); err == nil {
		s.page, err = mapped(sums)
	}
	if err == nil {
		s.alarms, err = ringbuf.Open(alarms.FD(), alarmBytes)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	for i, price := range prices {
		*s.word(i) = price
	}
	return s, nil
}

func (s *spending) close() {
	if s == nil {
		return
	}
	for _, m := range [][]byte{s.prices, s.page} {
		if m != nil {
			_ = unix.Munmap(m)
		}
	}
	if s.alarms != nil {
		s.alarms.Close()
	}
	*s = spending{}
}

// counter returns a counter of a CPU.
func (s *spending) counter(cpu, at int) *uint64 {
	return (*uint64)(unsafe.Pointer(&s.page[cpu*spendingStride+at]))
}

// Limit makes programs wake whoever waits for Alarms when hits have cost some ns more on a CPU.
func (in *Installation) Limit(more uint64) {
	s := in.spending
	for cpu := range s.cpus {
		atomic.StoreUint64(s.counter(cpu, limitAt), atomic.LoadUint64(s.counter(cpu, 0))+more)
	}
}

// Await waits until a limit is exceeded, Wake is called, or d has passed.
func (in *Installation) Await(d time.Duration) {
	in.spending.alarms.Wait(d)
	in.hear()
}

// Wake ends the current or the next Await.
func (in *Installation) Wake() { in.spending.alarms.Wake() }

// Watch is Await that ends in the thread itself, so that its priority holds. A Wake meanwhile
// may be lost. The thread waits in the kernel only at the end of a long time: meanwhile it has
// a P, and Go's monitor would wake sixty times to see whether it is to be taken away.
func (in *Installation) Watch(d time.Duration) {
	if d > sysmon.Long {
		until := time.Now().Add(d - sysmon.Ending)
		in.Await(d - sysmon.Ending)
		if d = sysmon.Ending - time.Since(until); d <= 0 || d > sysmon.Ending {
			return
		}
	}
	t := unix.NsecToTimespec(int64(d))
	_, _ = unix.Ppoll([]unix.PollFd{{Fd: int32(in.spending.wakes), Events: unix.POLLIN}}, &t, nil)
	in.hear()
}

// hear removes alarms.
func (in *Installation) hear() {
	in.spending.alarms.Drain(in.spending.alarms.Produced(), func([]byte) {})
}

// Spent returns what the hits of the query have cost so far, in ns, whether or not they
// counted. It makes no system call. Without an installation nothing was spent.
func (in *Installation) Spent() (ns uint64) {
	if in == nil {
		return 0
	}
	for cpu := range in.spending.cpus {
		ns += atomic.LoadUint64(in.spending.counter(cpu, 0))
	}
	return ns
}

// PricedHits is AllHits of a query with a budget. It makes no system call.
func (in *Installation) PricedHits() []uint64 {
	hits := make([]uint64, in.functions)
	for i := range hits {
		hits[i] = atomic.LoadUint64(in.spending.hits(i))
	}
	return hits
}

package program

import (
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"endoscope/probes/bpf"
)

// spendingMaps are the maps of queries with a budget (budget.h).
var spendingMaps = []string{bpf.FunctionMapPrices, bpf.FunctionMapSpent}

// spendingStride is the distance between the counters of two CPUs, bytes.
const spendingStride = 64

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
	return spec.Variables[bpf.FunctionVarBudgeted].Set(true)
}

// spending is the memory in which programs add up what hits cost.
type spending struct {
	prices []byte // by function
	page   []byte // sums by CPU
	cpus   int
}

// list returns the prices.
func (s *spending) list() []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(&s.prices[0])), len(s.prices)/8)
}

// retired is RETIRED of budget.h.
const retired = 1 << 63

// Retire makes calls of a function count no longer, from this instant on.
func (in *Installation) Retire(function int) {
	p := &in.spending.list()[function]
	atomic.StoreUint64(p, atomic.LoadUint64(p)|retired)
}

// openSpending writes the prices, and maps the sums. It returns nil without prices.
func openSpending(objects *ebpf.Collection, prices []uint64) (*spending, error) {
	if prices == nil {
		return nil, nil
	}
	page, err := mapped(objects.Maps[bpf.FunctionMapPrices])
	if err != nil {
		return nil, err
	}
	sums := objects.Maps[bpf.FunctionMapSpent]
	s := &spending{prices: page, cpus: int(sums.MaxEntries())}
	copy(s.list(), prices)
	if s.page, err = mapped(sums); err != nil {
		_ = unix.Munmap(page)
		return nil, err
	}
	return s, nil
}

func (s *spending) close() {
	if s != nil && s.page != nil {
		_ = unix.Munmap(s.page)
		_ = unix.Munmap(s.prices)
		s.page, s.prices = nil, nil
	}
}

// Spent returns what the hits of the query have cost so far, in ns, whether or not they
// counted. It makes no system call.
func (in *Installation) Spent() (ns uint64) {
	for cpu := range in.spending.cpus {
		ns += atomic.LoadUint64((*uint64)(unsafe.Pointer(&in.spending.page[cpu*spendingStride])))
	}
	return ns
}

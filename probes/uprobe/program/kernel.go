package program

import (
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"endoscope/probes/bpf"
	"endoscope/probes/rights"
	"endoscope/probes/ringbuf"
	"endoscope/probes/uprobe/attach"
)

// Kernel holds what all queries share: the ring, and the programs before they are
// specialised for a query.
type Kernel struct {
	spec   *ebpf.CollectionSpec
	calls  uint32 // maximum calls under way where exits are probed
	events *ebpf.Map
	Ring   *ringbuf.Buffer // of all queries; the kernel wakes the reader only if much is waiting
	Types  *btf.Cache      // types of the kernel
	ids    idPool
	WarmUp warmUp

	// unused holds maps that programs refer to but do not use.
	unused map[string]*ebpf.Map
	// boundaries of quantile buckets, nil until needed. Guarded by Provider.mu.
	boundaries *ebpf.Map
}

// Compiled is what a provider reads once: the programs, and the kernel's types for their
// relocation. Reading takes longer than loading the programs.
type Compiled struct {
	programs *ebpf.CollectionSpec
	types    *btf.Cache
}

func Read() (Compiled, error) {
	spec, err := bpf.LoadFunction()
	c := Compiled{spec, btf.NewCache()}
	_, _ = c.types.Kernel() // loading the programs reports the error
	return c, err
}

// New creates the ring. It attaches nothing.
func New(ringBytes, maxCalls int, preallocated bool, c Compiled) (*Kernel, error) {
	size := ringBytes
	if page := os.Getpagesize(); size < page || size&(size-1) != 0 {
		return nil, fmt.Errorf("uprobe: a ring of %d bytes is no power of two of at least a page", size)
	}
	spec := c.programs.Copy()
	if preallocated {
		preallocate(spec.Maps)
	}
	spec.Maps[bpf.FunctionMapEvents].MaxEntries = uint32(size)
	if err := spec.Variables[bpf.FunctionVarWakeBytes].Set(uint64(size / 4)); err != nil {
		return nil, err
	}
	events, err := ebpf.NewMap(spec.Maps[bpf.FunctionMapEvents])
	if err != nil {
		return nil, RefuseLoad(err)
	}
	r, err := ringbuf.Open(events.FD(), size)
	if err != nil {
		events.Close()
		return nil, err
	}
	k := &Kernel{spec: spec, calls: uint32(maxCalls), events: events, Ring: r, Types: c.types, ids: idPool{max: math.MaxUint16}, unused: map[string]*ebpf.Map{}}
	for _, name := range append(slices.Concat(unusedMaps(nil), spendingMaps, recallMaps, contextMaps), bpf.FunctionMapGates, bpf.FunctionMapArguments, bpf.FunctionMapScratch, bpf.FunctionMapMoments, bpf.FunctionMapSuspendedNames, bpf.FunctionMapFamily) {
		if spec.Maps[name].Type != ebpf.TaskStorage && name != bpf.FunctionMapSuspendedNames && name != bpf.FunctionMapFamily {
			spec.Maps[name].Key, spec.Maps[name].Value = nil, nil // sizes differ by query
		}
		if k.unused[name], err = ebpf.NewMap(spec.Maps[name]); err != nil {
			k.Close()
			return nil, RefuseLoad(err)
		}
	}
	k.WarmUp.possible = attach.FeatureMulti.Has()
	return k, nil
}

// Needs are the needs of streams of functions.
var Needs = rights.Needs{Since: "5.15"}

// RefuseLoad returns the error of programs that the kernel did not load because of err.
func RefuseLoad(err error) error { return Needs.Refused("a stream of functions", err) }

func (k *Kernel) Close() {
	k.WarmUp.Close()
	k.Ring.Close()
	k.events.Close()
	k.boundaries.Close()
	for _, m := range k.unused {
		m.Close()
	}
}

// idPool hands out numbers below max: first new ones, then the one released the longest
// ago, so that late events of a removed query are not attributed to another one.
type idPool struct {
	max, next uint32
	free      []uint32 // in the order of release
}

func (p *idPool) get() (uint32, bool) {
	if p.next < p.max {
		p.next++
		return p.next - 1, true
	}
	if len(p.free) == 0 {
		return 0, false
	}
	id := p.free[0]
	p.free = p.free[1:]
	return id, true
}

func (p *idPool) put(id uint32) { p.free = append(p.free, id) }

package uprobe

import (
	"errors"
	"fmt"
	"os"

	"endoscope/planner/plan"
	"endoscope/probes/bpf"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// What a function's configuration asks for (enum in function.bpf.c).
const (
	wantEntry = 1 << iota
	wantReturn
	wantArgs
	wantNames
	goRegisters
	onlyPIDs
	onlyComms
	onlyExes
)

// Kinds of bpf.FunctionTarget.
const (
	targetPID = iota + 1
	targetComm
	targetExe
)

// Kinds of bpf.FunctionEvent.
const (
	eventEntry = iota
	eventReturn
)

// kernel is what was loaded into the kernel: programs, maps and the ring.
type kernel struct {
	objects *ebpf.Collection
	ring    *ring
	session bool // returns through sessions, else through pairs of links
	ids     idPool
}

// load brings the programs into the kernel. Nothing is attached by it.
func load(o Options) (*kernel, error) {
	if !haveMulti() {
		return nil, plan.Errorf(-1, -1, "this kernel cannot attach uprobes in one go: Linux 6.6 or newer is needed")
	}
	session := haveSessions()
	switch o.ForceReturn {
	case "":
	case "pair":
		session = false
	case "session":
		if !session {
			return nil, plan.Errorf(-1, -1, "this kernel has no uprobe sessions: Linux 6.13 or newer is needed")
		}
	default:
		return nil, fmt.Errorf("uprobe: ForceReturn is %q, not session or pair", o.ForceReturn)
	}
	size := o.RingBytes
	if page := os.Getpagesize(); size < page || size&(size-1) != 0 {
		return nil, fmt.Errorf("uprobe: a ring of %d bytes is no power of two of at least a page", size)
	}
	spec, err := bpf.LoadFunction()
	if err != nil {
		return nil, err
	}
	if session {
		delete(spec.Programs, bpf.FunctionProgPairEntry)
		delete(spec.Programs, bpf.FunctionProgPairReturn)
	} else {
		delete(spec.Programs, bpf.FunctionProgFunctionSession)
	}
	spec.Maps[bpf.FunctionMapFunctions].MaxEntries = uint32(o.MaxProbes)
	spec.Maps[bpf.FunctionMapCounts].MaxEntries = uint32(o.MaxProbes)
	spec.Maps[bpf.FunctionMapEvents].MaxEntries = uint32(size)
	if err := spec.Variables[bpf.FunctionVarWakeBytes].Set(uint64(size / 4)); err != nil {
		return nil, err
	}
	objects, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, refuseLoad(err)
	}
	r, err := newRing(objects.Maps[bpf.FunctionMapEvents].FD(), size)
	if err != nil {
		objects.Close()
		return nil, err
	}
	return &kernel{objects: objects, ring: r, session: session, ids: idPool{max: uint32(o.MaxProbes)}}, nil
}

func refuseLoad(err error) error {
	if errors.Is(err, unix.EPERM) {
		return plan.Errorf(-1, -1, "the kernel refuses to load programs: %v", err).WithHint("run as root")
	}
	return fmt.Errorf("loading the programs of uprobe: %w", err)
}

func (k *kernel) close() {
	k.ring.close()
	k.objects.Close()
}

func (k *kernel) configure(id uint32, c bpf.FunctionConfig) error {
	return k.objects.Maps[bpf.FunctionMapFunctions].Put(id, &c)
}

// counters adds up a function's counters of all CPUs. per is reused.
func (k *kernel) counters(id uint32, per *[]bpf.FunctionCounters) (sum bpf.FunctionCounters, err error) {
	if err := k.objects.Maps[bpf.FunctionMapCounts].Lookup(id, per); err != nil {
		return sum, err
	}
	for i := range *per {
		sum = addCounters(sum, (*per)[i], 1)
	}
	return sum, nil
}

// addCounters is a + sign·b, of numbers that wrap.
func addCounters(a, b bpf.FunctionCounters, sign int64) bpf.FunctionCounters {
	s := uint64(sign)
	return bpf.FunctionCounters{
		Hits:       a.Hits + s*b.Hits,
		Armed:      a.Armed + s*b.Armed,
		Returned:   a.Returned + s*b.Returned,
		LostEntry:  a.LostEntry + s*b.LostEntry,
		LostReturn: a.LostReturn + s*b.LostReturn,
		Foreign:    a.Foreign + s*b.Foreign,
		Unchecked:  a.Unchecked + s*b.Unchecked,
		Nesting:    a.Nesting + s*b.Nesting,
		Unstored:   a.Unstored + s*b.Unstored,
		Inherited:  a.Inherited + s*b.Inherited,
	}
}

// lost is how many events found the ring full so far, of all functions.
func (k *kernel) lost() uint64 {
	var n uint64
	if err := k.objects.Variables[bpf.FunctionVarLostTotal].Get(&n); err != nil {
		return 0
	}
	return n
}

func (k *kernel) addTarget(t bpf.FunctionTarget) error {
	return k.objects.Maps[bpf.FunctionMapTargets].Put(&t, uint8(1))
}

func (k *kernel) removeTarget(t bpf.FunctionTarget) {
	// It was there; and a stale one would only be in nobody's scope.
	_ = k.objects.Maps[bpf.FunctionMapTargets].Delete(&t)
}

// idPool hands out function ids, the longest unused first: events and calls
// of a former owner may be under way for a moment.
type idPool struct {
	max, next uint32
	free      []uint32
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

func (p *idPool) available() int { return int(p.max-p.next) + len(p.free) }

package sched

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"endoscope/probes/bpf"
	"endoscope/probes/ringbuf"
)

var ringBytes = 1 << 20 // size of the map lives; tests have a larger one

// options are the constants of the programs.
type options struct {
	events     uint32 // events to record
	path, argv bool
	// guessLast: the last thread of a process is determined as on kernels
	// before Linux 6.16, which do not report it.
	guessLast bool
}

// kernel is the programs of one query, their ring and their links.
type kernel struct {
	objects *ebpf.Collection
	ring    *ringbuf.Ring
	links   []link.Link
}

// load loads the programs that o selects. Nothing is attached.
func load(o options) (*kernel, error) {
	spec, err := bpf.LoadLife()
	if err != nil {
		return nil, err
	}
	for name, needed := range map[string]uint32{
		bpf.LifeProgStarted:  processStart | threadStart,
		bpf.LifeProgExecuted: processExec,
		bpf.LifeProgEnded:    processEnd | threadEnd,
		bpf.LifeProgRenamed:  threadRename,
	} {
		if o.events&needed == 0 {
			delete(spec.Programs, name)
		}
	}
	last := !o.guessLast && o.events&processEnd != 0 && reportsLastThread()
	for name, value := range map[string]any{
		bpf.LifeVarWanted: o.events, bpf.LifeVarWantPath: o.path, bpf.LifeVarWantArgv: o.argv, bpf.LifeVarTellsLast: last,
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("setting %s: %w", name, err)
		}
	}
	spec.Maps[bpf.LifeMapLives].MaxEntries = uint32(ringBytes)
	k := &kernel{}
	if k.objects, err = ebpf.NewCollection(spec); err != nil {
		return nil, err
	}
	if k.ring, err = ringbuf.Map(k.objects.Maps[bpf.LifeMapLives].FD(), ringBytes); err != nil {
		k.objects.Close()
		return nil, err
	}
	return k, nil
}

// reportsLastThread reports whether sched_process_exit says which thread ends its
// process (since Linux 6.16): its handlers then have one argument more, after
// the tracepoint's own.
func reportsLastThread() bool {
	types, err := btf.LoadKernelSpec()
	if err != nil {
		return false
	}
	var t *btf.Typedef
	if err := types.TypeByName("btf_trace_sched_process_exit", &t); err != nil {
		return false
	}
	pointer, ok := btf.UnderlyingType(t).(*btf.Pointer)
	if !ok {
		return false
	}
	handler, ok := pointer.Target.(*btf.FuncProto)
	return ok && len(handler.Params) == 3
}

// attach attaches the programs.
func (k *kernel) attach() error {
	for name, p := range k.objects.Programs {
		l, err := link.AttachTracing(link.TracingOptions{Program: p})
		if err != nil {
			k.detach()
			return fmt.Errorf("attaching %s: %w", name, err)
		}
		k.links = append(k.links, l)
	}
	return nil
}

// detach detaches them: when it returns no program runs any more.
func (k *kernel) detach() {
	for _, l := range k.links {
		l.Close()
	}
	k.links = nil
}

// lost returns the number of records that found no room in the ring.
func (k *kernel) lost() uint64 {
	var n uint64
	_ = k.objects.Variables[bpf.LifeVarLost].Get(&n) // mapped memory, or one lookup
	return n
}

func (k *kernel) close() {
	k.detach()
	k.ring.Unmap()
	k.objects.Close()
}

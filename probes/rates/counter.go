package rates

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"endoscope/probes/keeper"
)

// Place is an instruction that is executed once per call.
type Place struct {
	File   *os.File
	Offset uint64 // of the instruction in the file
	PID    int    // process whose calls are counted; 0: all that execute the file
}

// maxCounted is how many places a counter can count, over its life.
const maxCounted = 1 << 12

// counter counts the executions of places.
type counter struct {
	program *ebpf.Program
	counts  *ebpf.Map // by cookie
	next    int       // next unused cookie
	closing sync.WaitGroup
}

func newCounter() (*counter, error) {
	counts, err := ebpf.NewMap(&ebpf.MapSpec{Name: "call_counts", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: maxCounted})
	if err != nil {
		return nil, err
	}
	// counts[cookie]++
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "count_calls", Type: ebpf.Kprobe, AttachType: ebpf.AttachTraceUprobeMulti, License: "GPL",
		Instructions: asm.Instructions{
			asm.FnGetAttachCookie.Call(),
			asm.StoreMem(asm.RFP, -4, asm.R0, asm.Word),
			asm.LoadMapPtr(asm.R1, counts.FD()),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -4),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "exit"),
			asm.Mov.Imm(asm.R1, 1),
			asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0),
			asm.Mov.Imm(asm.R0, 0).WithSymbol("exit"),
			asm.Return(),
		},
	})
	if err != nil {
		counts.Close()
		return nil, err
	}
	return &counter{program: program, counts: counts}, nil
}

// close returns when nothing is attached any more.
func (c *counter) close() {
	c.closing.Wait()
	c.program.Close()
	c.counts.Close()
}

// count attaches to the places while wait runs, and returns how often each was
// executed meanwhile. Places of processes that have ended count 0. When count
// returns the probes are being detached: the kernel removes them at once but
// then waits tens of milliseconds for running programs, which close waits for.
func (c *counter) count(places []Place, wait func()) ([]uint64, error) {
	first := c.next
	if first+len(places) > maxCounted {
		return nil, fmt.Errorf("more than %d places", maxCounted)
	}
	c.next += len(places)
	var links []keeper.Held
	defer func() {
		for _, l := range links {
			c.closing.Go(func() { l.Close() })
		}
	}()
	for _, g := range groups(places) {
		more, err := c.attachMost(places, g, first)
		links = append(links, more...)
		if err != nil {
			return nil, err
		}
	}
	before, err := c.read(first, len(places))
	if err != nil {
		return nil, err
	}
	wait()
	n, err := c.read(first, len(places))
	for i := range n {
		n[i] -= before[i]
	}
	return n, err
}

// attachMost attaches to the places except those whose instruction the kernel
// refuses: no query will probe those.
func (c *counter) attachMost(places []Place, which []int, first int) ([]keeper.Held, error) {
	l, err := c.attach(places, which, first)
	switch {
	case err == nil:
		return []keeper.Held{l}, nil
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ESRCH):
		return nil, nil // the process has ended
	case !errors.Is(err, notSupported) && !errors.Is(err, unix.ENOEXEC):
		return nil, err
	case len(which) == 1:
		return nil, nil
	}
	half := len(which) / 2
	links, err := c.attachMost(places, which[:half], first)
	if err != nil {
		return links, err
	}
	more, err := c.attachMost(places, which[half:], first)
	return append(links, more...), err
}

// notSupported is the kernel's ENOTSUPP (include/linux/errno.h), with which it
// refuses to probe an instruction.
const notSupported = syscall.Errno(524)

// groups divides places into those that can be attached together.
func groups(places []Place) [][]int {
	type key struct {
		file *os.File
		pid  int
	}
	at := map[key]int{}
	var out [][]int
	for i, p := range places {
		k := key{p.File, p.PID}
		if _, ok := at[k]; !ok {
			at[k] = len(out)
			out = append(out, nil)
		}
		out[at[k]] = append(out[at[k]], i)
	}
	return out
}

// attach attaches to places of one file and process; their cookies start at
// first.
func (c *counter) attach(places []Place, which []int, first int) (keeper.Held, error) {
	p := places[which[0]]
	o := &keeper.Link{Program: c.program.FD(), File: int(p.File.Fd()), AttachType: keeper.TypeMulti, PID: p.PID}
	for _, i := range which {
		o.Offsets = append(o.Offsets, places[i].Offset)
		o.Cookies = append(o.Cookies, uint64(first+i))
	}
	return keeper.Create(o)
}

func (c *counter) read(first, n int) ([]uint64, error) {
	out := make([]uint64, n)
	for i := range out {
		if err := c.counts.Lookup(uint32(first+i), &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

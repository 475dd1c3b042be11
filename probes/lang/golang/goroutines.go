package golang

import (
	"encoding/binary"
	"endoscope/probes/process"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Status is the runtime's status of a goroutine (runtime/runtime2.go).
type Status uint32

// The statuses of goroutines that are not idle or dead.
const (
	Runnable Status = 1
	Running  Status = 2
	Syscall  Status = 3
	Waiting  Status = 4
)

const statusScan = 0x1000 // _Gscan: the collector scans the stack

// Goroutine is a goroutine without a thread, at the time it was read.
type Goroutine struct {
	Address    uint64 // of its g
	ID         uint64
	Status     Status
	Reason     string // for Waiting: "chan receive", "IO wait" ...
	PC, SP, FP uint64 // where it will resume
	Top        uint64 // the end of its stack
	Stack      []byte // its memory from SP on; valid until the next Parked
	room       int    // number of bytes of the stack from SP on
}

// Process is a running Go program. It is used by one goroutine at a time.
type Process struct {
	pid     int
	layout  *Layout
	bias    uint64
	reasons []string

	addresses []uint64
	gs, again []byte
	stacks    []byte
	found     []Goroutine
	kept      []int // for each of found, its index in addresses
	local     []unix.Iovec
	remote    []unix.RemoteIovec
}

// Limits on the values accepted from a program.
const (
	maxGoroutines = 1 << 20
	maxStack      = 64 << 10 // bytes copied of one; deeper ones are cut
	maxReason     = 64
	batch         = 1024 // parts of a process_vm_readv: UIO_MAXIOV
)

// Open prepares reading a program whose code is loaded with an offset (bias)
// from the addresses in its file.
func Open(pid int, l *Layout, bias uint64) *Process {
	return &Process{pid: pid, layout: l, bias: bias}
}

var errMemory = errors.New("memory cannot be read")

// read reads memory of the process, all or nothing.
func (p *Process) read(addr uint64, b []byte) error {
	if process.ReadMemory(p.pid, b, addr) != len(b) {
		return errMemory
	}
	return nil
}

// readAll reads equally long parts of memory, one after the other into b. A
// part that cannot be read is left unchanged.
func (p *Process) readAll(addrs []uint64, size int, b []byte) {
	for len(addrs) > 0 {
		n := min(len(addrs), batch)
		p.local, p.remote = p.local[:0], p.remote[:0]
		for i, a := range addrs[:n] {
			p.local = append(p.local, unix.Iovec{Base: &b[i*size], Len: uint64(size)})
			p.remote = append(p.remote, unix.RemoteIovec{Base: uintptr(a), Len: size})
		}
		got, err := unix.ProcessVMReadv(p.pid, p.local, p.remote, 0)
		if err != nil {
			got = 0
		}
		if done := got / size; done < n { // the next one is unreadable
			n = done + 1
		}
		addrs, b = addrs[n:], b[n*size:]
	}
}

func word(b []byte, at uint64) uint64 { return binary.LittleEndian.Uint64(b[at:]) }

// Parked lists the goroutines that wait, or wait for a thread. torn is the
// number of those that moved while they were read. look, if not nil, is called with
// each before it is read again. The result is valid until the next call.
func (p *Process) Parked(look func(*Goroutine)) (gs []Goroutine, torn int, err error) {
	var header [16]byte
	if err := p.read(p.layout.allgs+p.bias, header[:8]); err != nil {
		return nil, 0, err
	}
	if err := p.read(p.layout.allglen+p.bias, header[8:]); err != nil {
		return nil, 0, err
	}
	array, n := word(header[:], 0), word(header[:], 8)
	if n > maxGoroutines {
		return nil, 0, fmt.Errorf("a list of %d goroutines", n)
	}
	raw := resized(&p.stacks, int(8*n))
	if err := p.read(array, raw); err != nil {
		return nil, 0, err
	}
	p.addresses = p.addresses[:0]
	for i := range n {
		p.addresses = append(p.addresses, word(raw, 8*i))
	}
	size := int(p.layout.size)
	all := resized(&p.gs, size*int(n))
	clear(all)
	p.readAll(p.addresses, size, all)

	p.found, p.kept = p.found[:0], p.kept[:0]
	room := 0
	for i := range p.addresses {
		if g, ok := p.parse(all[i*size:][:size]); ok {
			g.Address = p.addresses[i]
			p.found, p.kept = append(p.found, g), append(p.kept, i)
			room += g.room
		}
	}
	p.readStacks(p.found, resized(&p.stacks, room))
	for i := range p.found {
		if look != nil {
			look(&p.found[i])
		}
	}
	torn = p.keepSettled(all, size)
	return p.found, torn, nil
}

// readStacks reads the stacks of gs into memory. An unreadable one stays nil:
// its goroutine has moved.
func (p *Process) readStacks(gs []Goroutine, memory []byte) {
	for len(gs) > 0 {
		n := min(len(gs), batch)
		p.local, p.remote = p.local[:0], p.remote[:0]
		rest := memory
		for i := range gs[:n] {
			p.local = append(p.local, unix.Iovec{Base: &rest[0], Len: uint64(gs[i].room)})
			p.remote = append(p.remote, unix.RemoteIovec{Base: uintptr(gs[i].SP), Len: gs[i].room})
			rest = rest[gs[i].room:]
		}
		got, err := unix.ProcessVMReadv(p.pid, p.local, p.remote, 0)
		if err != nil {
			got = 0
		}
		read := 0
		for read < n && got >= gs[read].room {
			g := &gs[read]
			g.Stack, memory = memory[:g.room:g.room], memory[g.room:]
			got -= g.room
			read++
		}
		if read < n { // the next one is unreadable
			memory = memory[gs[read].room:]
			read++
		}
		gs = gs[read:]
	}
}

// parse decodes a g; false if it is not parked.
func (p *Process) parse(b []byte) (g Goroutine, ok bool) {
	l := p.layout
	g.Status = Status(binary.LittleEndian.Uint32(b[l.status:]) &^ statusScan)
	g.ID, g.PC, g.SP, g.FP = word(b, l.goid), word(b, l.schedPC), word(b, l.schedSP), word(b, l.schedFrame)
	low, high := word(b, l.stackLow), word(b, l.stackHigh)
	if g.Status != Waiting && g.Status != Runnable || g.ID == 0 || g.SP < low || g.SP >= high || high-low > 1<<30 {
		return g, false
	}
	if g.Status == Waiting {
		g.Reason = p.reason(int(b[l.reason]))
	}
	g.Top, g.room = high, int(min(high-g.SP, maxStack))
	return g, true
}

// keepSettled drops the goroutines of which a second reading differs, and
// returns their number.
func (p *Process) keepSettled(before []byte, size int) (torn int) {
	addrs := p.addresses[:0:0]
	for _, i := range p.kept {
		addrs = append(addrs, p.addresses[i])
	}
	now := resized(&p.again, size*len(addrs))
	clear(now)
	p.readAll(addrs, size, now)
	l := p.layout
	settled := p.found[:0]
	for k, i := range p.kept {
		a, b := before[i*size:][:size], now[k*size:][:size]
		same := word(a, l.goid) == word(b, l.goid) && word(a, l.schedPC) == word(b, l.schedPC) && word(a, l.schedSP) == word(b, l.schedSP) &&
			(binary.LittleEndian.Uint32(a[l.status:])^binary.LittleEndian.Uint32(b[l.status:]))&^statusScan == 0
		if same && p.found[k].Stack != nil {
			settled = append(settled, p.found[k])
		} else {
			torn++
		}
	}
	p.found = settled
	return torn
}

// reason returns the text of a wait reason.
func (p *Process) reason(i int) string {
	if p.reasons == nil {
		p.readReasons()
	}
	if i >= len(p.reasons) {
		return ""
	}
	return p.reasons[i]
}

func (p *Process) readReasons() {
	p.reasons = make([]string, p.layout.reasonCount)
	table := make([]byte, 16*p.layout.reasonCount)
	if p.read(p.layout.reasons+p.bias, table) != nil {
		return
	}
	for i := range p.reasons {
		at, n := word(table, uint64(16*i)), word(table, uint64(16*i+8))
		text := make([]byte, min(n, maxReason))
		if p.read(at, text) == nil {
			p.reasons[i] = string(text)
		}
	}
}

// resized returns a slice of n bytes in *b, and grows it if needed.
func resized(b *[]byte, n int) []byte {
	if cap(*b) < n {
		*b = make([]byte, n+n/4)
	}
	return (*b)[:n]
}

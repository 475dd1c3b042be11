package codesite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/arch/x86/x86asm"

	"endoscope/probes/elf"
)

// Body returns where the body of function i begins: its first instruction or,
// in a Go function, the first one after the stack check, which is executed
// again when the stack has grown.
func (m Code) Body(i int) uint64 {
	f := &m.Entries()[i]
	if !f.Go {
		return f.Addr
	}
	code, err := m.Image().Code(f.Addr, m.Extent(i))
	if err != nil {
		return f.Addr
	}
	return f.Addr + uint64(m.stackCheck(code, f.Addr))
}

// ErrGrowsStack is returned for code that only grows a goroutine's stack,
// before the function body begins.
var ErrGrowsStack = errors.New("only grows the stack")

// SitesAt returns the instructions of function i at addrs, which another
// source, such as a line table, says begin there. They are probed each time
// they are executed, however often in a call. A site whose Method is "" cannot
// be probed, for the reason in why, to be read after "the code there". The code
// is decoded from the function's entry on, since a breakpoint within an
// instruction would make the target execute another one.
func (m Code) SitesAt(i int, addrs []uint64) (sites []Site, why []error, err error) {
	f := &m.Entries()[i]
	if err := m.refuse(i, "ask for"); err != nil {
		return nil, nil, m.withVariants(i, err)
	}
	code, err := m.Image().Code(f.Addr, m.Extent(i))
	if err != nil {
		return nil, nil, err
	}
	if len(code) > maxBodyBytes {
		return nil, nil, fmt.Errorf("is larger than %d KiB", maxBodyBytes>>10)
	}
	asked := make(map[uint64]bool, len(addrs))
	for _, at := range addrs {
		asked[at] = true
	}
	begins := make(map[uint64]int, len(addrs)) // length of the instruction at an address
	for pos := 0; pos < len(code); {
		in, err := decode(code[pos:])
		if err != nil {
			break // instruction boundaries after this are unknown
		}
		if at := f.Addr + uint64(pos); asked[at] {
			begins[at] = in.Len
		}
		pos += in.Len
	}
	sites, why = make([]Site, len(addrs)), make([]error, len(addrs))
	for k, at := range addrs {
		n, ok := begins[at]
		if !ok {
			why[k] = ErrApart
			continue
		}
		pos := int(at - f.Addr)
		if f.Go && m.callsMorestack(code, f.Addr, pos) {
			why[k] = ErrGrowsStack
			continue
		}
		how, err := method(code[pos:], n)
		switch {
		case err != nil:
			in, _ := decode(code[pos:])
			why[k] = fmt.Errorf("is `%s`, which %w", in.syntax(at), err)
			continue
		case how == Nop && !m.isCalled(at):
			why[k] = fmt.Errorf("is %w", errReplaced)
			continue
		}
		sites[k] = Site{Offset: m.OffsetOf(f.Addr) + uint64(pos), Addr: at, Method: how, PastEntry: pos > 0, Bytes: bytes.Clone(code[pos : pos+n])}
	}
	return sites, why, nil
}

// ErrApart is returned for code outside of a function's main part, where
// compilers put what is rarely executed, or that begins no instruction of it.
var ErrApart = errors.New("does not begin an instruction of the function's main part")

// callsMorestack reports whether the first call or jump of the code at byte pos
// is to the function that grows a Go stack, before the function body begins.
func (c Code) callsMorestack(code []byte, addr uint64, pos int) bool {
	for pos < len(code) {
		in, err := decode(code[pos:])
		if err != nil {
			return false
		}
		if in.transfers() {
			target, direct := in.target(addr + uint64(pos))
			return direct && c.GrowsStack(target)
		}
		pos += in.Len
	}
	return false
}

// Between is the error for an address at which no instruction begins. Begin is where the
// instruction begins that it lies in, Next where the one after it does.
type Between struct {
	Begin, Next uint64
	Insn        string // Intel syntax
}

func (e *Between) Error() string {
	return fmt.Sprintf("lies within the instruction at %#x, `%s`", e.Begin, e.Insn)
}

var (
	errNoFunction = errors.New("is not in the code of a function")
	errMixed      = errors.New("is in code that cannot be told from data")
	errRestarted  = errors.New("is in a sequence that the kernel restarts (rseq), which a probe would break")
	errUnreached  = errors.New("is not reached by the branches of its function, and may be data")
)

// PlaceAt returns the site of the instruction at an address of any part of a function, and
// where the part begins. The code is decoded from there: a breakpoint within an instruction
// would make the target execute another one, and one in data would change them. known says
// that another source, such as a line table, knows that it is code. Errors are to be read
// after the address; *Between for an address at which no instruction begins.
func (m Code) PlaceAt(addr uint64, known bool) (s Site, start uint64, err error) {
	if m.Image().IsStub(addr) {
		return s, 0, errors.New("is in a linkage stub")
	}
	part, whole, ok := m.partAt(addr)
	if !ok {
		return s, 0, errNoFunction
	}
	if m.Image().SegmentOf(part.Start).Writable {
		return s, 0, errWritable
	}
	if part.End-part.Start > maxBodyBytes {
		return s, 0, fmt.Errorf("is in a function larger than %d KiB", maxBodyBytes>>10)
	}
	code, err := m.Image().Code(part.Start, part.End-part.Start)
	if err != nil {
		return s, 0, err
	}
	b, err := instructionsOf(code, part, addr)
	if err != nil {
		return s, 0, err
	}
	n := b.at(addr)
	if n == nil {
		return s, 0, errMixed
	}
	if n.addr != addr {
		return s, 0, &Between{n.addr, n.end(), n.syntax(n.addr)}
	}
	if m.isRestarted(addr) {
		return s, 0, errRestarted
	}
	if whole && !known && !m.isReached(b, addr) {
		return s, 0, errUnreached
	}
	s, err = At(m.Image(), addr)
	switch s.PastEntry = addr > part.Start; {
	case err != nil:
		return s, 0, err
	case s.Method == Nop && !(whole && m.isCalled(addr)):
		return s, 0, fmt.Errorf("is at `%s`, %w", s.Insn(), errReplaced)
	}
	return s, part.Start, nil
}

// errReplaced is the error for a nop that is not entered by calls only: a call in its place
// pushes onto what a leaf keeps below its stack pointer.
var errReplaced = errors.New("a nop that the kernel would replace by a call")

// isCalled reports whether a function with a name begins at an address: one that
// only the unwind table knows may be a part to which another one jumps.
func (m Code) isCalled(addr uint64) bool {
	i, ok := m.FunctionAt(addr)
	return ok && m.Entries()[i].Addr == addr && m.Entries()[i].Named()
}

// partAt returns the contiguous code of a function that contains an address: its main part,
// which is entered at its beginning, or one that a compiler has put elsewhere.
func (m Code) partAt(addr uint64) (part elf.Span, main, ok bool) {
	e := m.UnwindTable().Find(addr)
	if i, ok := m.FunctionAt(addr); ok {
		f := &m.Entries()[i]
		part = elf.Span{Start: f.Addr, End: f.Addr + m.Extent(i)}
		switch {
		case m.Size(i) > 0:
		case e != nil && e.Start == f.Addr:
			part.End = e.End
		default: // its end is not known
			part.End = min(part.End, f.Addr+1)
		}
		return part, true, addr < part.End
	}
	part, ok = m.fragmentAt(addr)
	return part, false, ok
}

// instructionsOf decodes the instructions of a part up to code that cannot be decoded, which
// must lie after addr. Code is refused in which a branch leads within an instruction, as
// after data that was taken for code.
func instructionsOf(code []byte, part elf.Span, addr uint64) (*body, error) {
	b := &body{spans: []elf.Span{part}}
	for pos := 0; pos < len(code); {
		at := part.Start + uint64(pos)
		in, err := decode(code[pos:])
		if err != nil {
			if at <= addr {
				return nil, errMixed // where instructions begin after this is not known
			}
			break
		}
		b.nodes = append(b.nodes, node{instruction: in, addr: at})
		pos += in.Len
	}
	for i := range b.nodes {
		to, ok := b.nodes[i].target(b.nodes[i].addr)
		if _, begins := b.index(to); ok && part.Contains(to) && !begins {
			return nil, errMixed
		}
	}
	return b, nil
}

// isReached reports whether execution may come to an address from the first instruction, also
// by jump tables. A computed jump makes nothing else reached: tables may lie behind it.
func (m Code) isReached(b *body, addr uint64) bool {
	at, _ := b.index(addr)
	seen := make([]bool, len(b.nodes))
	computed := false
	follow := func(todo []int) {
		for len(todo) > 0 {
			i := todo[len(todo)-1]
			if todo = todo[:len(todo)-1]; seen[i] {
				continue
			}
			seen[i] = true
			n := &b.nodes[i]
			to, direct := n.target(n.addr)
			if k, within := b.index(to); direct && within {
				todo = append(todo, k)
			}
			computed = computed || n.Op == x86asm.JMP && !direct
			if n.falls() && i+1 < len(b.nodes) {
				todo = append(todo, i+1)
			}
		}
	}
	follow([]int{0})
	if computed && !seen[at] {
		follow(m.inTables(b))
	}
	return seen[at]
}

// inTables returns the instructions that words of possible jump tables lead to, as
// exitFinder.followTables does: a table ends where a word leads to none, and what lies in the
// part itself may be code.
func (m Code) inTables(b *body) (out []int) {
	tables := b.tables()
	if len(tables) > maxTables {
		return nil
	}
	relocated := map[uint64]uint64{}
	for at, value := range m.Image().RelativeRelocations() {
		if _, ok := b.index(value); ok {
			relocated[at] = value
		}
	}
	for table := range tables {
		if b.contains(table) {
			continue
		}
		data := m.Image().Data(table, maxTableEntries*8)
		add := func(width int, target func(at uint64, b []byte) uint64) {
			for at := 0; at+width <= len(data); at += width {
				k, ok := b.index(target(table+uint64(at), data[at:]))
				if !ok {
					return
				}
				out = append(out, k)
			}
		}
		add(4, func(_ uint64, b []byte) uint64 { return relative(table, b) })
		add(8, func(at uint64, b []byte) uint64 {
			if to, ok := relocated[at]; ok {
				return to
			}
			return binary.LittleEndian.Uint64(b)
		})
	}
	return out
}

// restartable is the section with the descriptors of restartable sequences (struct rseq_cs of
// include/uapi/linux/rseq.h): version and flags, start, length and address of the abort code.
const restartable = "__rseq_cs"

// isRestarted reports whether an address is in a restartable sequence. The kernel aborts a
// sequence when the thread is preempted in it, which it would not see where an instruction is
// executed elsewhere, as that of a probe is.
func (m Code) isRestarted(addr uint64) bool {
	const size, startAt = 32, 8
	data, section, err := m.Image().Section(restartable)
	if err != nil || section == nil {
		return false
	}
	starts := map[uint64]uint64{}
	for at, value := range m.Image().RelativeRelocations() {
		if section.Addr <= at && at < section.Addr+section.Size {
			starts[at] = value
		}
	}
	for at := 0; at+size <= len(data); at += size {
		start := binary.LittleEndian.Uint64(data[at+startAt:])
		if relocated, ok := starts[section.Addr+uint64(at+startAt)]; ok {
			start = relocated
		}
		if addr-start < binary.LittleEndian.Uint64(data[at+16:]) {
			return true
		}
	}
	return false
}

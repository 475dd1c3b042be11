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
		case how == Nop && pos > 0: // a call in its place pushes onto what a leaf keeps below its stack pointer
			why[k] = errors.New("is a nop that the kernel would replace by a call")
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
	list, err := instructionsOf(code, part, addr)
	if err != nil {
		return s, 0, err
	}
	length, err := instructionAt(list, addr)
	if err != nil {
		return s, 0, err
	}
	if m.isRestarted(addr) {
		return s, 0, errRestarted
	}
	if whole && !known && !m.isReached(list, addr) {
		return s, 0, errUnreached
	}
	pos := int(addr - part.Start)
	how, err := method(code[pos:], length)
	in, _ := decode(code[pos:])
	if err != nil {
		return s, 0, fmt.Errorf("is at `%s`, which %w", in.syntax(addr), err)
	}
	if how == Nop && (pos > 0 || !whole || !m.isCalled(addr)) { // a call in its place pushes onto what a leaf keeps below its stack pointer
		return s, 0, fmt.Errorf("is at `%s`, a nop that the kernel would replace by a call", in.syntax(addr))
	}
	return Site{Offset: m.OffsetOf(part.Start) + uint64(pos), Addr: addr, Method: how, PastEntry: pos > 0, Bytes: bytes.Clone(code[pos : pos+length])}, part.Start, nil
}

// isCalled reports whether a function with a name begins at an address: one that
// only the unwind table knows may be a part to which another one jumps.
func (m Code) isCalled(addr uint64) bool {
	i, ok := m.FunctionAt(addr)
	return ok && !m.Function(i).Synthetic
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
	if e == nil || m.Image().SegmentOf(e.Start) == nil {
		return elf.Span{}, false, false
	}
	return elf.Span{Start: e.Start, End: e.End}, false, true
}

// instructionsOf decodes the instructions of a part up to code that cannot be decoded, which
// must lie after addr. Code is refused in which a branch leads within an instruction, as
// after data that was taken for code.
func instructionsOf(code []byte, part elf.Span, addr uint64) (list []node, err error) {
	begins := make([]bool, len(code))
	for pos := 0; pos < len(code); {
		at := part.Start + uint64(pos)
		in, err := decode(code[pos:])
		if err != nil {
			if at <= addr {
				return nil, errMixed // where instructions begin after this is not known
			}
			break
		}
		begins[pos] = true
		list = append(list, node{instruction: in, addr: at})
		pos += in.Len
	}
	for i := range list {
		if to, ok := list[i].target(list[i].addr); ok && part.Contains(to) && !begins[to-part.Start] {
			return nil, errMixed
		}
	}
	return list, nil
}

// instructionAt returns the length of the instruction at an address.
func instructionAt(list []node, addr uint64) (int, error) {
	for i := range list {
		switch n := &list[i]; {
		case n.addr == addr:
			return n.Len, nil
		case addr < n.end():
			return 0, &Between{n.addr, n.end(), n.syntax(n.addr)}
		}
	}
	return 0, errMixed
}

// isReached reports whether execution may come to an address from the first instruction, also
// by jump tables. A computed jump makes nothing else reached: tables may lie behind it.
func (m Code) isReached(list []node, addr uint64) bool {
	index := make(map[uint64]int, len(list))
	for i := range list {
		index[list[i].addr] = i
	}
	seen := make([]bool, len(list))
	computed := false
	follow := func(todo []int) {
		for len(todo) > 0 {
			i := todo[len(todo)-1]
			if todo = todo[:len(todo)-1]; seen[i] {
				continue
			}
			seen[i] = true
			n := &list[i]
			to, direct := n.target(n.addr)
			if k, within := index[to]; direct && within {
				todo = append(todo, k)
			}
			computed = computed || n.Op == x86asm.JMP && !direct
			if n.falls() && i+1 < len(list) {
				todo = append(todo, i+1)
			}
		}
	}
	follow([]int{0})
	if at := index[addr]; seen[at] || !computed {
		return seen[at]
	}
	follow(m.inTables(list, index))
	return seen[index[addr]]
}

// inTables returns the instructions that words of possible jump tables lead to, as
// exitFinder.followTables does: a table ends where a word leads to none.
func (m Code) inTables(list []node, index map[uint64]int) (out []int) {
	relocated := map[uint64]uint64{}
	for at, value := range m.Image().RelativeRelocations() {
		if _, ok := index[value]; ok {
			relocated[at] = value
		}
	}
	for _, table := range tablesOf(list) {
		data := m.Image().Data(table, maxTableEntries*8)
		for b := data; len(b) >= 4; b = b[4:] {
			k, ok := index[relative(table, b)]
			if !ok {
				break
			}
			out = append(out, k)
		}
		for at := 0; at+8 <= len(data); at += 8 {
			to := binary.LittleEndian.Uint64(data[at:])
			if value, ok := relocated[table+uint64(at)]; ok {
				to = value
			}
			k, ok := index[to]
			if !ok {
				break
			}
			out = append(out, k)
		}
	}
	return out
}

// tablesOf returns the addresses in the operands of instructions that jump tables may have, at
// most maxTables.
func tablesOf(list []node) (out []uint64) {
	for i := range list {
		n := &list[i]
		for _, arg := range n.Args {
			switch mem, ok := arg.(x86asm.Mem); {
			case !ok || len(out) == maxTables:
			case mem.Base == x86asm.RIP:
				out = append(out, n.end()+uint64(mem.Disp))
			case mem.Disp > 0 && mem.Index != 0:
				out = append(out, uint64(mem.Disp))
			}
		}
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

package codesite

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"endoscope/probes/elf"
)

// Methods by which the kernel executes the probed instruction
// (arch/x86/kernel/uprobes.c).
const (
	// Emulated: the kernel computes the instruction's effect inside the trap.
	Emulated = "emulated"
	// Stepped: the kernel executes a copy and takes a second trap after it.
	Stepped = "stepped"
	// Nop: the 5-byte nop, which Linux 6.18 replaces by a call. Older kernels
	// step it, later ones emulate it.
	Nop = "nop"
)

// Site is an instruction to probe, so that each call, or each return, is seen
// exactly once.
type Site struct {
	Offset    uint64 // file offset of the instruction
	Addr      uint64 // its virtual address
	Method    string // Emulated, Stepped or Nop
	PastEntry bool   // not the function's first instruction
	Bytes     []byte // the instruction, to compare with the process' memory

	// SPOffset is added to the stack pointer at the site to get the address of
	// the return address, which is the same at entry and exit of a call.
	SPOffset int64
	// RetvalReady: at this exit rax holds the function's result, if it returns
	// an integer in registers.
	RetvalReady bool
}

// Insn returns the instruction in Intel syntax.
func (s Site) Insn() string {
	in, err := decode(s.Bytes)
	if err != nil {
		return "(bad)"
	}
	return in.syntax(s.Addr)
}

// maxInstruction is the maximum length of an instruction in bytes.
const maxInstruction = 15

// At returns the site of the instruction at addr of a file. The error, to be
// read after a name of the place, says why the kernel cannot probe it.
func At(im *elf.Image, addr uint64) (s Site, err error) {
	s.Addr = addr
	code, err := im.Code(addr, maxInstruction)
	if err != nil {
		return s, err
	}
	in, err := decode(code)
	if err != nil {
		return s, fmt.Errorf("is at code that %w", err)
	}
	segment := im.SegmentOf(addr)
	if segment.Writable {
		return s, errWritable
	}
	s.Offset, s.Bytes = addr-segment.Start+segment.Offset, bytes.Clone(code[:in.Len])
	if s.Method, err = method(code, in.Len); err != nil {
		return s, fmt.Errorf("is at `%s`, which %w", s.Insn(), err)
	}
	return s, nil
}

// refuse returns an error if no probe can be set on function i. at is the verb
// for a linkage stub's advice: "probe", or "ask for", the function that it
// leads to.
func (m Code) refuse(i int, at string) error {
	addr, _ := m.Entry(i)
	switch {
	case m.IFunc(i):
		return errors.New("is an indirect function, whose code only chooses the variant that is called")
	case m.Image().IsStub(addr):
		return errors.New("is a linkage stub; " + at + " the function in the library that defines it")
	case m.Image().SegmentOf(addr).Writable:
		return errWritable
	}
	return nil
}

var errWritable = errors.New("lies in a writable segment, where the kernel sets no probes")

// siteAt makes a site of a candidate of f.
func (m Code) siteAt(f *elf.Entry, code []byte, c candidate) (Site, error) {
	if c.refused != nil {
		in, err := decode(code[c.pos:])
		if err != nil {
			return Site{}, err
		}
		begins := "begins with"
		if c.pos > 0 {
			begins = "has, where it could be probed,"
		}
		return Site{}, fmt.Errorf("%s `%s`, which %w", begins, in.syntax(f.Addr+uint64(c.pos)), c.refused)
	}
	return Site{
		Offset:    m.OffsetOf(f.Addr) + uint64(c.pos),
		Addr:      f.Addr + uint64(c.pos),
		Method:    c.method,
		PastEntry: c.pos > 0,
		SPOffset:  c.depth,
		Bytes:     bytes.Clone(code[c.pos : c.pos+c.len]),
	}, nil
}

// withVariants adds the variants of function i, if it is an indirect function,
// to an error.
func (m Code) withVariants(i int, err error) error {
	if m.IFunc(i) {
		return fmt.Errorf("%w%s", err, m.variants(i))
	}
	return err
}

// variants lists functions that an indirect function may choose, as a hint.
func (m Code) variants(i int) string {
	const most = 4
	f := m.Function(i)
	names := append([]string{f.Name}, f.Aliases...)
	found := make([][]string, len(names))
	for j, other := range m.All() {
		for k, name := range names {
			variant, ok := strings.CutPrefix(other.Name, "__"+strings.TrimLeft(name, "_")+"_")
			if ok && isInstructionSet(variant) && !m.IFunc(j) && len(found[k]) < most {
				found[k] = append(found[k], other.Name)
			}
		}
	}
	for _, list := range found {
		if len(list) > 0 {
			return "; probe a variant: " + strings.Join(list, ", ")
		}
	}
	return ""
}

// isInstructionSet reports whether the suffix of a name selects processors, as
// the suffixes of the C library's variants do.
func isInstructionSet(suffix string) bool {
	for _, set := range []string{"sse", "ssse", "avx", "evex", "erms", "generic"} {
		if strings.HasPrefix(suffix, set) {
			return true
		}
	}
	return false
}

// breakpoint is the byte that a uprobe writes over an instruction's first byte.
const breakpoint = 0xcc

const call32 = 0xe8 // opcode of a call, which 4 bytes of displacement follow

// Optimised probes (arch/x86/kernel/uprobes.c). Linux 6.18 replaces the 5-byte
// nop by a call. Later kernels replace a 10-byte nop instead: by an instruction
// that moves the stack pointer below the red zone, and a call.
var (
	tenByteNop   = []byte("\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00")
	skipsRedZone = []byte("\x48\x8d\x64\x24\x80") // lea -0x80(%rsp),%rsp
)

// Unprobe undoes in got the changes that probes at offset at make, ours or
// another tool's. got is a process's copy of the code want of its file; any other
// difference was made by the program.
//
// Kernels replace the first byte last when they set an optimised probe, and first
// when they remove it, so a breakpoint may stand before bytes of either state.
func Unprobe(got, want []byte, at int) {
	g, w := got[at:], want[at:]
	switch {
	case bytes.HasPrefix(w, tenByteNop):
		unprobeTenByteNop(g)
	case g[0] == call32 && bytes.HasPrefix(w, fiveByteNop):
		copy(g, fiveByteNop)
	case g[0] == breakpoint:
		g[0] = w[0]
		if bytes.HasPrefix(w, fiveByteNop) && !bytes.Equal(g[1:5], w[1:5]) {
			copy(g, fiveByteNop) // the displacement of the call is written first
		}
	}
}

// unprobeTenByteNop restores a 10-byte nop.
func unprobeTenByteNop(g []byte) {
	half := len(skipsRedZone)
	begins := func(code []byte) bool {
		return bytes.Equal(g[:half], code[:half]) || g[0] == breakpoint && bytes.Equal(g[1:half], code[1:half])
	}
	called := g[half] == call32
	if begins(skipsRedZone) && called || begins(tenByteNop) && (called || bytes.Equal(g[half:len(tenByteNop)], tenByteNop[half:])) {
		copy(g, tenByteNop)
	}
}

// UnprobeNops undoes in got what removed probes leave: the second half of a
// 10-byte nop stays a call, which is then an operand of the nop.
func UnprobeNops(got, want []byte) {
	half := len(skipsRedZone)
	for at := 0; ; at += len(tenByteNop) {
		next := bytes.Index(want[at:], tenByteNop)
		if next < 0 {
			return
		}
		at += next
		if g := got[at:]; bytes.HasPrefix(g, tenByteNop[:half]) && g[half] == call32 {
			copy(g, tenByteNop)
		}
	}
}

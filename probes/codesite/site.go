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

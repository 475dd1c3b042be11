package symbols

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/arch/x86/x86asm"
)

// candidate is an instruction of a function's first block that is executed
// once per call, as far as the block itself tells, with the stack pointer and
// the argument registers as at the entry.
type candidate struct {
	pos     int // bytes after the entry
	in      instruction
	method  string
	refused error // why it cannot be probed
}

// maxCandidates bounds how far into its block a function is looked at.
const maxCandidates = 16

// candidates lists the candidates of code from byte pos on, in order. It ends
// with the block, with the first instruction that changes what a probe may
// want to read (its own site is still before the change), and where the code
// cannot be decoded.
func candidates(code []byte, pos int) (list []candidate) {
	for len(list) < maxCandidates && pos < len(code) {
		in, err := decode(code[pos:])
		if err != nil {
			return list
		}
		c := candidate{pos: pos, in: in}
		c.method, c.refused = method(code[pos:], in.Len)
		list = append(list, c)
		if !in.harmless() {
			return list
		}
		pos += in.Len
	}
	return list
}

// harmless reports whether the instruction changes flags at most.
func (in instruction) harmless() bool {
	switch in.Op {
	case x86asm.CMP, x86asm.TEST, x86asm.NOP:
		return true
	}
	return strings.HasPrefix(in.text, "endbr")
}

// EntrySite is where a call of function i is to be probed: its first
// instruction or, in Go, the first cheap one behind the stack check. The error
// says in the user's words, to be read after the function's name, why there is
// no such place: an unseen prefix would make the kernel refuse the whole
// attachment, or accept it and never fire.
//
// A function without a frame may have a loop that begins at its first
// instruction; it is refused. Where the first instruction opens the frame, a
// jump to it must have closed the frame before: it is a tail call of the
// function to itself, and counted.
func (m *Module) EntrySite(i int) (Site, error) {
	fns := m.Functions()
	if i < 0 || i >= len(fns) {
		return Site{}, fmt.Errorf("no function %d in %s", i, m.name)
	}
	f := &fns[i]
	switch {
	case m.IFunc(i):
		return Site{}, errors.New("is an indirect function, whose code only chooses the variant that is called" + m.variants(i))
	case m.image.isStub(f.Addr):
		return Site{}, errors.New("is a linkage stub; probe the function in the library that defines it")
	case m.image.segmentOf(f.Addr).writable:
		return Site{}, errors.New("lies in a writable segment, where the kernel sets no probes")
	case f.Lang == Go:
		return m.goSite(i)
	}
	code, err := m.image.code(f.Addr, m.extent(i))
	if err != nil {
		return Site{}, err
	}
	list := candidates(code, 0)
	if len(list) == 0 {
		return Site{}, errors.New("begins with an instruction that cannot be decoded, or is shorter than its first instruction")
	}
	if m.isLooped(f, code, 0, list[0]) {
		return Site{}, errLoop
	}
	return m.siteAt(f, code, list[0])
}

// errLoop is the fate of the few functions that have nothing before a loop.
var errLoop = errors.New("begins with a loop, so that calls cannot be told from iterations")

// isLooped reports whether the instructions from byte first up to the
// candidate may be executed more than once in a call.
func (m *Module) isLooped(f *Function, code []byte, first int, c candidate) bool {
	if c.in.opensFrame() {
		return false
	}
	return isEntered(code, first, c.pos) || m.tableEnters(code, f.Addr, first, c.pos)
}

// opensFrame reports whether the instruction moves the stack pointer down.
func (in instruction) opensFrame() bool {
	return in.Op == x86asm.PUSH || in.Op == x86asm.SUB && in.Args[0] == x86asm.RSP
}

// siteAt makes a site of a candidate of f.
func (m *Module) siteAt(f *Function, code []byte, c candidate) (Site, error) {
	if c.refused != nil {
		begins := "begins with"
		if c.pos > 0 {
			begins = "has behind its stack check"
		}
		return Site{}, fmt.Errorf("%s `%s`, which %w", begins, c.in.syntax(f.Addr+uint64(c.pos)), c.refused)
	}
	return Site{
		Offset:    f.Offset + uint64(c.pos),
		Addr:      f.Addr + uint64(c.pos),
		Insn:      c.in.syntax(f.Addr + uint64(c.pos)),
		Method:    c.method,
		PastEntry: c.pos > 0,
		Bytes:     bytes.Clone(code[c.pos : c.pos+c.in.Len]),
	}, nil
}

// variants names functions that an indirect function may choose, as a hint.
func (m *Module) variants(i int) string {
	const most = 4
	fns := m.Functions()
	var found []string
	for _, name := range append([]string{fns[i].Name}, fns[i].Aliases...) {
		prefix := "__" + strings.TrimLeft(name, "_") + "_"
		for j := range fns {
			variant, ok := strings.CutPrefix(fns[j].Name, prefix)
			if ok && isInstructionSet(variant) && !m.IFunc(j) && len(found) < most {
				found = append(found, fns[j].Name)
			}
		}
		if len(found) > 0 {
			return "; probe a variant: " + strings.Join(found, ", ")
		}
	}
	return ""
}

// isInstructionSet reports whether the suffix of a name says for which
// processors a variant is, as the C library's suffixes do.
func isInstructionSet(suffix string) bool {
	for _, set := range []string{"sse", "ssse", "avx", "evex", "erms", "generic"} {
		if strings.HasPrefix(suffix, set) {
			return true
		}
	}
	return false
}

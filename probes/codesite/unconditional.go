package codesite

import (
	"golang.org/x/arch/x86/x86asm"

	"endoscope/probes/elf"
)

// unconditionalCall is a direct call or tail call that every call of a function
// executes exactly once.
type unconditionalCall struct {
	target uint64
	end    uint64 // end address of the instruction
}

const (
	maxUnconditionalBytes = 256  // from the entry to the end of an unconditional call
	maxPromptBytes        = 1024 // of a function that returns promptly
	maxPromptDepth        = 8    // of nested calls
)

// unconditionalCalls returns the calls of hidden functions in function i that
// nothing bypasses and nothing repeats. Every path from the entry leads there,
// no loop does, and functions called before return promptly, so that between
// the entry and the call a thread can only be stopped by force: by a fatal
// signal, or one whose handler jumps away.
func (p *callProof) unconditionalCalls(i int) (calls []unconditionalCall) {
	f := &p.c.Entries()[i]
	code, err := p.c.Image().Code(f.Addr, p.c.Extent(i))
	if err != nil {
		return nil
	}
	joined := 0 // where all forward branches so far have joined
	add := func(target, end int) bool {
		if !p.hidden.has(f.Addr + uint64(target)) {
			return true // not a hidden function
		}
		// Later code, and code elsewhere, may lead back to before the call.
		if mayEnter := isEntered(code[end:], 1-end, -1); mayEnter || tableEnters(p.c.Image().Data, code, f.Addr, 1, end-1) ||
			p.c.entersFromOutside(i, elf.Span{Start: f.Addr + 1, End: f.Addr + uint64(end)}) {
			return false
		}
		calls = append(calls, unconditionalCall{f.Addr + uint64(target), f.Addr + uint64(end)})
		return true
	}
	for pos := 0; pos < min(len(code), maxUnconditionalBytes); {
		in, err := decode(code[pos:])
		if err != nil {
			return calls
		}
		end := pos + in.Len
		to, direct := in.target(uint64(pos))
		target := int(int64(to))
		switch {
		case in.Op == x86asm.XBEGIN:
			return calls
		case in.Op == x86asm.CALL:
			if !direct || pos < joined || !add(target, end) || !p.isPrompt(f.Addr+uint64(target), 0) {
				return calls
			}
		case in.jumps():
			if !direct {
				return calls
			}
			if target < 0 || target >= len(code) {
				if in.Op == x86asm.JMP && pos >= joined {
					add(target, end)
				}
				return calls
			}
			if target < end {
				return calls
			}
			joined = max(joined, target)
		case in.transfers():
			return calls
		}
		pos = end
	}
	return calls
}

// callProof proves properties of functions and caches the results. It is not
// safe for concurrent use.
type callProof struct {
	c      Code
	hidden entrySet
	prompt map[uint64]bool // also false while under analysis
}

// isPrompt reports whether the function at addr returns after a bounded number
// of instructions: it has no loop and no system call, calls only such
// functions, and restores the stack pointer.
func (p *callProof) isPrompt(addr uint64, depth int) bool {
	if known, ok := p.prompt[addr]; ok {
		return known
	}
	if depth == maxPromptDepth {
		return false
	}
	p.prompt[addr] = false
	p.prompt[addr] = p.returns(addr, depth)
	return p.prompt[addr]
}

func (p *callProof) returns(addr uint64, depth int) bool {
	i := p.c.functionAt(addr)
	if i < 0 || p.c.Entries()[i].Addr != addr || p.c.IFunc(i) || p.c.Extent(i) > maxPromptBytes {
		return false
	}
	code, err := p.c.Image().Code(addr, p.c.Extent(i))
	if err != nil {
		return false
	}
	falls := true // into the next instruction
	for pos := 0; pos < len(code); {
		in, err := decode(code[pos:])
		if err != nil {
			return false
		}
		end := pos + in.Len
		to, direct := in.target(uint64(pos))
		target := int(int64(to))
		falls = true
		switch {
		case in.Op == x86asm.RET:
			falls = false
		case in.Op == x86asm.XBEGIN:
			return false
		case in.Op == x86asm.CALL:
			if !direct || !p.isPrompt(addr+uint64(target), depth+1) {
				return false
			}
		case in.jumps():
			switch {
			case !direct:
				return false
			case target < 0 || target >= len(code):
				if in.Op != x86asm.JMP || !p.isPrompt(addr+uint64(target), depth+1) {
					return false
				}
			case target < end:
				return false
			}
			falls = in.Op != x86asm.JMP
		case in.transfers() || !in.effect().spKnown:
			return false
		case in.Op == x86asm.NOP:
			falls = false // padding; a nop in the middle has no effect either
		}
		pos = end
	}
	return !falls
}

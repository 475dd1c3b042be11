package stack

import (
	"encoding/binary"
	"time"

	"endoscope/probes/bpf"
	"endoscope/probes/dwarf/op"
	"endoscope/probes/unwind"
)

// maxFrames is the depth at which a stack is cut.
const maxFrames = 2048

// cause is why a stack does not reach its thread's first function.
type cause uint8

const (
	reached      cause = iota // it does
	noCode                    // an address in no executable mapping
	noTable                   // code without unwind rules or frame pointers
	noMemory                  // unreadable stack memory
	noProgress                // a frame that does not lie above its callee
	tooDeep                   // more than maxFrames
	noExpression              // a rule that cannot be computed
	noReturn                  // a return address replaced by a probe, whose original is not found
	noFrames                  // an interpreter's frames that cannot be read, or are more than maxCodes
	numCauses
)

// String completes "stacks that do not reach their thread's first function:".
func (c cause) String() string {
	return [numCauses]string{"", "an address without code", "code without unwind table or frame pointer", "memory that cannot be read",
		"frames that lead nowhere", "deeper than 2048 calls", "a rule that cannot be computed", "a return address taken by another probe",
		"frames of an interpreter that could not be read, or more than 512"}[c]
}

// unwinder computes the frames of samples. It is used by one goroutine.
type unwinder struct {
	modules *modules
	now     func() time.Time

	// Of the stack being unwound:
	space       *space
	low         uint64 // address of stack
	stack       []byte
	outer       remote
	reach       bool   // memory outside stack may be read from the process
	beyond      bool   // such memory was read
	top         uint64 // highest stack address used by frames
	frames      []uint32
	pcs         []uint64 // of frames, except inlined calls
	recordSteps bool     // record steps
	steps       []step
}

func newUnwinder(ms *modules) *unwinder { return &unwinder{modules: ms, now: time.Now} }

// Word reads the thread's memory, for the expressions of unwind rules.
func (u *unwinder) Word(addr uint64) (uint64, bool) {
	if at := addr - u.low; at < uint64(len(u.stack)) && uint64(len(u.stack))-at >= 8 {
		return binary.LittleEndian.Uint64(u.stack[at:]), true
	}
	if !u.reach {
		return 0, false
	}
	u.beyond = true
	return u.outer.word(addr)
}

// unwind sets u.frames to the functions that s's thread is in, leaf first. If reach is
// set it may read memory that was not copied with the sample; u.beyond reports whether
// it did.
func (u *unwinder) unwind(sp *space, s sample, reach bool) cause {
	u.space, u.stack, u.low = sp, s.stack, s.low
	u.frames, u.pcs, u.steps = u.frames[:0], u.pcs[:0], u.steps[:0]
	u.reach, u.beyond, u.top = reach, false, 0
	u.outer.reset(sp.process.PID)
	u.look(s.Image)
	regs := s.Regs
	interrupted := true // the instruction at the address has not been executed yet
	if s.returned != 0 {
		r := u.region(s.returned)
		if r == nil {
			return noCode
		}
		interrupted = false
		u.frames, u.pcs = append(u.frames, u.modules.at(r.module, s.returned-r.start+r.offset).frame), append(u.pcs, s.returned)
	}
	for len(u.frames) < maxFrames {
		pc := regs[unwind.RegIP]
		if pc == 0 {
			return reached // the convention for first frames without a table
		}
		if !interrupted {
			pc--
		}
		r := u.region(pc)
		if r == nil {
			return noCode
		}
		p := u.modules.at(r.module, pc-r.start+r.offset)
		if !p.ruled && !interrupted {
			// An address that was not pushed by a call is the first of its code, for
			// example the code to which makecontext lets a context return.
			if next := u.modules.at(r.module, pc+1-r.start+r.offset); next.ruled {
				p = next
			}
		}
		frame := p.frame
		if r.module.symbols == nil { // code compiled at run time
			if n, ok := u.compiled(pc); ok {
				frame = n
			}
		}
		if len(u.frames) > 0 || !s.entered {
			u.frames = append(u.frames, p.inlined...)
		}
		u.frames = append(u.frames, frame)
		u.pcs = append(u.pcs, regs[unwind.RegIP])
		sp := regs[unwind.RegSP]
		var why cause
		switch {
		case !p.ruled && len(u.frames) == 1 && s.returnAt != 0 && u.byKnownAddress(&regs, s.returnAt):
		case !p.ruled && interrupted && u.byReturnAddress(&regs, r, pc):
		case !p.ruled:
			why = u.byFramePointer(&regs)
		case p.rule.Outermost:
			return reached
		case p.plain:
			why = u.byRule(&regs, &p.rule)
		default:
			why = u.byExpression(&regs, &p.rule)
		}
		if why != reached {
			return why
		}
		if u.recordSteps {
			u.steps = append(u.steps, step{module: r.module, offset: pc - r.start + r.offset, frame: regs[unwind.RegSP] - wordBytes})
		}
		interrupted = p.ruled && p.rule.Signal
		if s.Trampoline != 0 && regs[unwind.RegIP] == s.Trampoline && !u.restore(&regs, s.taken) {
			return noReturn
		}
		u.top = max(u.top, regs[unwind.RegSP])
		// Only a signal's frame may lie on another stack, and only a leaf may
		// have its return address in a register (vfork).
		if up := regs[unwind.RegSP]; (up < sp || up == sp && len(u.pcs) > 1) && !interrupted {
			return noProgress
		}
	}
	return tooDeep
}

// look reads the process's mappings, if they may have changed.
func (u *unwinder) look(image uint64) {
	sp := u.space
	if now := u.now(); sp.image != image || now.Sub(sp.read) > late || len(sp.regions) == 0 {
		sp.image = image
		sp.refresh(u.modules, now)
	}
}

// used returns the number of bytes of the stack that unwinding needed, at most as many
// as can be copied.
func (u *unwinder) used() uint32 {
	if u.top < u.low || u.top-u.low > maxBytes {
		return maxBytes
	}
	return uint32(u.top - u.low)
}

// region finds the code at an address, including code mapped since the mappings were
// read.
func (u *unwinder) region(pc uint64) *region {
	r := u.space.find(pc)
	if r == nil && pc < 1<<47 {
		if now := u.now(); now.Sub(u.space.read) > u.space.pause {
			u.space.refresh(u.modules, now)
			r = u.space.find(pc)
		}
	}
	return r
}

// byRule unwinds to the caller by a rule whose registers are all saved in memory.
func (u *unwinder) byRule(regs *[unwind.Registers]uint64, rule *unwind.Rule) cause {
	cfa := regs[rule.CFAReg] + uint64(rule.CFAOffset)
	regs[unwind.RegSP] = cfa
	for i := range rule.Saved {
		s := &rule.Saved[i]
		v, ok := u.Word(cfa + uint64(s.Offset))
		if !ok && s.Reg == unwind.RegIP {
			return noMemory
		}
		regs[s.Reg] = v
	}
	return reached
}

// byExpression unwinds to the caller by any rule.
func (u *unwinder) byExpression(regs *[unwind.Registers]uint64, rule *unwind.Rule) cause {
	here := *regs
	cfa := here[rule.CFAReg] + uint64(rule.CFAOffset)
	if rule.CFAExpr != nil {
		var ok bool
		if cfa, ok = op.Evaluate(rule.CFAExpr, here[:], u); !ok {
			return noExpression
		}
	}
	regs[unwind.RegSP] = cfa
	for i := range rule.Saved {
		s := &rule.Saved[i]
		v, ok := uint64(0), true
		switch s.How {
		case unwind.AtOffset:
			v, ok = u.Word(cfa + uint64(s.Offset))
		case unwind.IsOffset:
			v = cfa + uint64(s.Offset)
		case unwind.InRegister:
			v = here[s.Offset]
		default:
			if v, ok = op.Evaluate(s.Expr, here[:], u, cfa); ok && s.How == unwind.AtExpression {
				v, ok = u.Word(v)
			}
		}
		if !ok && (s.Reg == unwind.RegIP || s.Reg == unwind.RegSP) {
			return noMemory
		}
		regs[s.Reg] = v
	}
	return reached
}

// byFramePointer unwinds to the caller where no unwind table covers the code: code
// compiled at run time and hand-written code mostly have frame pointers.
func (u *unwinder) byFramePointer(regs *[unwind.Registers]uint64) cause {
	fp := regs[unwind.RegBP]
	if fp < regs[unwind.RegSP] || fp&7 != 0 || fp-regs[unwind.RegSP] > 1<<20 {
		return noTable
	}
	caller, ok1 := u.Word(fp)
	address, ok2 := u.Word(fp + 8)
	if !ok1 || !ok2 {
		return noTable
	}
	if address != 0 && u.region(address-1) == nil {
		return noTable
	}
	regs[unwind.RegBP], regs[unwind.RegIP], regs[unwind.RegSP] = caller, address, fp+16
	return reached
}

// restore puts back the return address that a return probe has replaced, which was
// directly below the caller's stack pointer. If several probes are on one call, the
// kernel lists the one set last first, and only the one set first holds the caller's
// address.
func (u *unwinder) restore(regs *[unwind.Registers]uint64, taken []bpf.StackTaken) (found bool) {
	for i := range taken {
		if taken[i].At == regs[unwind.RegSP]-8 {
			regs[unwind.RegIP], found = taken[i].Address, true
		} else if found {
			break
		}
	}
	return found
}

package codegen

import (
	"fmt"
	"math"
	"slices"

	"github.com/cilium/ebpf/asm"
)

// Registers. The argument is moved where calculations do not change it; these
// hold the operands of arithmetic, from the first on.
const (
	argument = asm.R6
	scratch  = asm.R0
	scratch2 = asm.R1
)

var operands = []asm.Register{asm.R2, asm.R3, asm.R4, asm.R5, asm.R7, asm.R8, asm.R9}

// label is a jump target.
type label int

// writer collects instructions. Jumps go forward only: programs have no loops.
type writer struct {
	ins    asm.Instructions
	size   int // in units of 8 bytes: loads of 64-bit constants take two
	jumps  []jump
	places []int // by label
	wait   *Waiting
}

type jump struct {
	index int // of the instruction
	from  int // position after it
	to    label
}

func (w *writer) add(list ...asm.Instruction) {
	for _, i := range list {
		w.ins = append(w.ins, i)
		w.size++
		if i.OpCode.IsDWordLoad() {
			w.size++
		}
	}
}

func (w *writer) newLabel() label {
	w.places = append(w.places, -1)
	return label(len(w.places) - 1)
}

// place sets l to the current position.
func (w *writer) place(l label) { w.places[l] = w.size }

// used reports whether some jump goes to l.
func (w *writer) used(l label) bool {
	return slices.ContainsFunc(w.jumps, func(j jump) bool { return j.to == l })
}

// jump adds a jump instruction to l.
func (w *writer) jump(i asm.Instruction, l label) {
	w.add(i)
	w.jumps = append(w.jumps, jump{len(w.ins) - 1, w.size, l})
}

// goTo jumps unconditionally.
func (w *writer) goTo(l label) { w.jump(asm.Ja.Label(""), l) }

// constant loads a number.
func (w *writer) constant(r asm.Register, c int64) {
	if fits32(c) {
		w.add(asm.Mov.Imm(r, int32(c)))
		return
	}
	w.add(asm.LoadImm(r, c, asm.DWord))
}

func fits32(c int64) bool { return c == int64(int32(c)) }

// compare jumps to l if r op c; it may change the scratch register.
func (w *writer) compare(op asm.JumpOp, r asm.Register, c int64, l label) {
	if fits32(c) {
		w.jump(op.Imm(r, int32(c), ""), l)
		return
	}
	w.constant(scratch, c)
	w.jump(op.Reg(r, scratch, ""), l)
}

// formula writes code that jumps to target if f has the value want, else falls
// through.
func (w *writer) formula(f formula, want bool, target, unsure label) {
	switch f := f.(type) {
	case *test:
		if f.nulls == 0 {
			f.code(w, want, target, unsure)
			return
		}
		null := target
		if want {
			null = w.newLabel()
		}
		w.add(asm.LoadMem(operands[0], argument, f.absent, asm.DWord))
		w.constant(scratch, int64(f.nulls))
		w.jump(asm.JSet.Reg(operands[0], scratch, ""), null)
		f.code(w, want, target, unsure)
		if want {
			w.place(null)
		}
	case *junction:
		// Each part of an AND can make it false, only the last makes it true.
		out := target
		if f.and == want {
			out = w.newLabel()
		}
		last := len(f.list) - 1
		for i, g := range f.list {
			if i == last {
				w.formula(g, want, target, unsure)
			} else {
				w.formula(g, !f.and, out, unsure)
			}
		}
		if out != target {
			w.place(out)
		}
	}
}

// maxSize limits a program: jumps have 16 bits, and the verifier has a limit,
// too.
const maxSize = 8 << 10

// finish resolves the jumps.
func (w *writer) finish() (asm.Instructions, error) {
	if w.size > min(maxSize, math.MaxInt16) {
		return nil, fmt.Errorf("a program of %d instructions, at most %d are allowed", w.size, maxSize)
	}
	for _, j := range w.jumps {
		w.ins[j.index].Offset = int16(w.places[j.to] - j.from)
	}
	return w.ins, nil
}

// program returns the function that returns 1 if f is or may be true, else 0.
func program(f formula) (asm.Instructions, error) {
	if v, ok := f.(verdict); ok {
		if v {
			return nil, nil
		}
		return asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}, nil
	}
	w := &writer{}
	pass, refuse := w.newLabel(), w.newLabel()
	w.add(asm.Mov.Reg(argument, asm.R1))
	w.formula(f, false, refuse, pass)
	w.place(pass)
	w.add(asm.Mov.Imm(asm.R0, 1), asm.Return())
	w.place(refuse)
	w.add(asm.Mov.Imm(asm.R0, 0), asm.Return())
	return w.finish()
}

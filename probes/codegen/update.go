package codegen

import (
	"github.com/cilium/ebpf/asm"
)

// Registers of the update function, besides that of the event. The value to
// fold is in the first of folding, which is preserved; the others, and the
// scratch registers, are free.
const (
	stateRegister = asm.R7
	wordsRegister = asm.R8
)

var folding = []asm.Register{asm.R2, asm.R3, asm.R4, asm.R5}

// update writes the function that folds an event into the state of its group.
func (c *aggregator) update() (asm.Instructions, error) {
	w := &writer{}
	w.add(asm.Mov.Reg(argument, asm.R1), asm.Mov.Reg(stateRegister, asm.R2), asm.Mov.Reg(wordsRegister, asm.R3))
	all := false
	never := w.newLabel() // no computation here can fail
	for _, k := range c.classes {
		end := w.newLabel()
		if k.filter != "" {
			w.add(asm.LoadMem(scratch, wordsRegister, int16(8*k.flag), asm.DWord))
			w.jump(asm.JEq.Imm(scratch, 0, ""), end)
		}
		n := k.n
		if k.filter == "" {
			n, all = eventsWord, true
		}
		for _, in := range k.inputs {
			if in.at >= 0 {
				w.add(asm.LoadMem(folding[0], wordsRegister, int16(8*in.at), asm.DWord))
			} else {
				in.value.load(w, folding, never)
			}
			for _, f := range in.folds {
				c.fold(w, f, n, in.value.unsigned)
			}
		}
		if n >= 0 {
			w.count(n)
		}
		w.place(end)
	}
	if !all {
		w.count(eventsWord)
	}
	w.place(never)
	w.add(asm.Mov.Imm(asm.R0, 0), asm.Return())
	return w.finish()
}

// load and save move words of the state.
func (w *writer) load(r asm.Register, word int) {
	w.add(asm.LoadMem(r, stateRegister, int16(8*word), asm.DWord))
}

func (w *writer) save(word int, r asm.Register) {
	w.add(asm.StoreMem(stateRegister, int16(8*word), r, asm.DWord))
}

// count adds 1 to a word.
func (w *writer) count(word int) {
	w.load(scratch, word)
	w.add(asm.Add.Imm(scratch, 1))
	w.save(word, scratch)
}

// carry sets c to 1 if sum, of which r was a summand, wrapped, else to 0.
func (w *writer) carry(c, sum, r asm.Register) {
	fits := w.newLabel()
	w.add(asm.Mov.Imm(c, 0))
	w.jump(asm.JGE.Reg(sum, r, ""), fits)
	w.add(asm.Mov.Imm(c, 1))
	w.place(fits)
}

// fold writes code that folds the value in one way; n is the word that counts
// the earlier values.
func (c *aggregator) fold(w *writer, f *fold, n int, unsigned bool) {
	x, a, b, d := folding[0], folding[1], folding[2], folding[3]
	end, set := w.newLabel(), w.newLabel()
	none := func() { // jumps to set if there is no value yet
		w.load(a, n)
		w.jump(asm.JEq.Imm(a, 0, ""), set)
	}
	switch f.kind {
	case "sum":
		w.load(a, f.words[0])
		w.add(asm.Add.Reg(a, x))
		w.save(f.words[0], a)
		w.carry(b, a, x)
		if !unsigned {
			w.add(asm.Mov.Reg(d, x), asm.ArSh.Imm(d, 63), asm.Add.Reg(b, d)) // the sign, extended
		}
		w.load(a, f.words[1])
		w.add(asm.Add.Reg(a, b))
		w.save(f.words[1], a)
	case "squares":
		c.squares(w, f.words, unsigned)
	case "min", "max":
		none()
		w.load(a, f.words[0])
		op := asm.JSGE
		if f.kind == "max" {
			op = asm.JSLE
		}
		if unsigned {
			op = unsignedJumps[op]
		}
		w.jump(op.Reg(x, a, ""), end)
		w.place(set)
		w.save(f.words[0], x)
	case "first", "last":
		// At equal times, first keeps the earlier arrival and last the later
		// one.
		c.time.load(w, folding[3:], end)
		none()
		w.load(a, f.words[0])
		op := asm.JSGE
		if f.kind == "last" {
			op = asm.JSLT
		}
		w.jump(op.Reg(d, a, ""), end)
		w.place(set)
		w.save(f.words[0], d)
		w.save(f.words[1], x)
	}
	w.place(end)
}

// squares adds the square of the value, 128 bits, to three words. With |x| =
// h·2^32 + l it is h²·2^64 + h·l·2^33 + l².
func (c *aggregator) squares(w *writer, words []int, unsigned bool) {
	hi, lo, t := folding[2], folding[3], folding[1]
	w.add(asm.Mov.Reg(scratch, folding[0]))
	if !unsigned {
		w.add(asm.Mov.Reg(t, scratch), asm.ArSh.Imm(t, 63), asm.Xor.Reg(scratch, t), asm.Sub.Reg(scratch, t)) // |x|
	}
	w.add(asm.Mov.Reg(hi, scratch), asm.RSh.Imm(hi, 32),
		asm.Mov.Reg(lo, scratch), asm.LSh.Imm(lo, 32), asm.RSh.Imm(lo, 32),
		asm.Mov.Reg(scratch, hi), asm.Mul.Reg(scratch, lo), // h·l
		asm.Mul.Reg(hi, hi), asm.Mul.Reg(lo, lo),
		asm.Mov.Reg(scratch2, scratch), asm.LSh.Imm(scratch2, 33), asm.RSh.Imm(scratch, 31),
		asm.Add.Reg(hi, scratch), asm.Add.Reg(lo, scratch2))
	w.carry(t, lo, scratch2)
	w.add(asm.Add.Reg(hi, t))
	w.load(scratch, words[0])
	w.add(asm.Add.Reg(scratch, lo))
	w.save(words[0], scratch)
	w.carry(t, scratch, lo)
	w.load(scratch, words[1])
	w.add(asm.Add.Reg(scratch, hi))
	w.carry(scratch2, scratch, hi)
	w.add(asm.Add.Reg(scratch, t))
	w.carry(lo, scratch, t)
	w.save(words[1], scratch)
	w.add(asm.Add.Reg(scratch2, lo))
	w.load(scratch, words[2])
	w.add(asm.Add.Reg(scratch, scratch2))
	w.save(words[2], scratch)
}

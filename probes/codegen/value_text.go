package codegen

import (
	"github.com/cilium/ebpf/asm"
)

// cutOff writes code that records that t is truncated.
func (w *writer) cutOff(t *Text) {
	if !t.Prefix {
		w.fail(cutOff)
	}
}

// text writes code that reads a text after those so far, and tests it.
func (r *Reader) text(w *writer, at Places, column int, v Value) {
	slot, t := r.Columns[column].Slot, v.Text
	if t == nil { // already known from its length
		w.absent(at, at.TextBit+uint8(slot))
		return
	}
	null, bad, large, done := w.newLabel(), w.newLabel(), w.newLabel(), w.newLabel()
	w.enough(v, null, bad)
	if len(t.Parts) > 0 {
		w.parts(t, null, bad, large)
	} else if t.Length != nil {
		w.read(t.Length, null, bad)
		w.add(asm.StoreMem(asm.RFP, lengthAt, asm.R3, asm.DWord))
		empty, read := w.newLabel(), w.newLabel()
		w.jump(asm.JEq.Imm(asm.R3, 0, ""), empty) // the address of an empty text is meaningless
		w.read(&t.At, null, bad)
		w.jump(asm.JEq.Imm(asm.R3, 0, ""), null)
		w.add(asm.LoadMem(asm.R2, asm.RFP, lengthAt, asm.DWord))
		w.jump(asm.JLE.Imm(asm.R2, int32(t.Max), ""), read)
		w.cutOff(t)
		w.add(asm.Mov.Imm(asm.R2, int32(t.Max)), asm.StoreMem(asm.RFP, lengthAt, asm.R2, asm.DWord))
		w.place(read)
		w.add(asm.Mov.Reg(asm.R1, readTexts), asm.Add.Reg(asm.R1, readEnd))
		w.copyUser()
		w.jump(asm.JNE.Imm(asm.R0, 0, ""), bad)
		w.place(empty)
		w.add(asm.LoadMem(asm.R0, asm.RFP, lengthAt, asm.DWord))
		w.jump(asm.JGT.Imm(asm.R0, int32(t.Max), ""), bad) // never taken, for the verifier
	} else {
		w.read(&t.At, null, bad)
		w.jump(asm.JEq.Imm(asm.R3, 0, ""), null)
		// Reading one byte more than the maximum shows whether there are more,
		// and the kernel appends a zero byte.
		size, whole := t.Max+2, w.newLabel()
		if t.Chars > 0 {
			size = min(size, t.Chars+1)
		}
		w.copyText(int32(size))
		w.jump(asm.JSLE.Imm(asm.R0, 0, ""), bad)
		w.add(asm.Sub.Imm(asm.R0, 1))
		w.jump(asm.JLE.Imm(asm.R0, int32(t.Max), ""), whole)
		w.cutOff(t)
		w.add(asm.Mov.Imm(asm.R0, int32(t.Max)))
		w.place(whole)
	}
	w.add(asm.StoreMem(readTexts, int16(2+2*slot), asm.R0, asm.Half))
	for i := range r.Tests {
		if r.Tests[i].Column == column {
			w.testText(&r.Tests[i], t.Max, at)
		}
	}
	w.add(asm.Add.Reg(readEnd, asm.R0))
	w.goTo(done)
	if w.used(large) {
		w.place(large)
		w.fail(tooLarge)
		w.goTo(null)
	}
	if w.used(bad) {
		w.place(bad)
		w.fail(unreadable)
	}
	if w.used(null) || w.used(bad) {
		w.place(null)
		w.absent(at, at.TextBit+uint8(slot))
	}
	w.place(done)
}

// testText writes code that sets a bit if the text of length R0 at the end
// passes. It preserves R0.
func (w *writer) testText(t *TextTest, most int, at Places) {
	found, end := w.newLabel(), w.newLabel()
	w.add(asm.Mov.Reg(asm.R4, readTexts), asm.Add.Reg(asm.R4, readEnd))
	compare := func(s string, op asm.JumpOp) {
		if len(s) > most { // no text is that long
			return
		}
		next := w.newLabel()
		w.jump(op.Imm(asm.R0, int32(len(s)), ""), next)
		for i := 0; i < len(s); {
			word, n, size := piece(s[i:])
			w.add(asm.LoadMem(asm.R3, asm.R4, int16(i), size))
			if fits32(int64(word)) {
				w.jump(asm.JNE.Imm(asm.R3, int32(word), ""), next)
			} else {
				w.add(asm.LoadImm(asm.R2, int64(word), asm.DWord))
				w.jump(asm.JNE.Reg(asm.R3, asm.R2, ""), next)
			}
			i += n
		}
		w.goTo(found)
		w.place(next)
	}
	for _, s := range t.Equal {
		compare(s, asm.JNE)
	}
	for _, s := range t.Begin {
		compare(s, asm.JLT)
	}
	if !w.used(found) {
		return
	}
	w.goTo(end)
	w.place(found)
	w.flag(at, t.Bit)
	w.place(end)
}

// piece returns the part of s that one load reads: its value and number of
// bytes.
func piece(s string) (word uint64, n int, size asm.Size) {
	switch {
	case len(s) >= 8:
		n, size = 8, asm.DWord
	case len(s) >= 4:
		n, size = 4, asm.Word
	case len(s) >= 2:
		n, size = 2, asm.Half
	default:
		n, size = 1, asm.Byte
	}
	for i := n - 1; i >= 0; i-- {
		word = word<<8 | uint64(s[i])
	}
	return word, n, size
}

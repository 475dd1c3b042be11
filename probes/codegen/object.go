package codegen

import "github.com/cilium/ebpf/asm"

// Part is some bytes of an object: a number, or a copy of memory.
type Part struct {
	At     Integer
	Size   int // bytes copied from the address At; 0: At is the number, of which 8 bytes are stored
	Offset int // in the object
}

// PartsSize returns the size of an object with parts, whose own size is given: parts that
// are numbers may end behind it.
func PartsSize(size int, parts []Part) int {
	for _, p := range parts {
		size = max(size, p.Offset+max(p.Size, 8))
	}
	return size
}

// Element is the offset of an element whose indexes are computed: their sum, each times its
// size.
type Element struct {
	Indexes []Index
	// After is the number of addresses in Follow that are loaded before it is added.
	After int
}

// Index is a computed index.
type Index struct {
	By   Integer
	Size int64 // of what it counts, in bytes
	// Count is the number of elements: the value is NULL unless 0 <= index < Count.
	// 0: not known.
	Count int64
}

// parts writes code that reads the parts of an object, and leaves its size in R0.
func (w *writer) parts(t *Text, null, bad, large label) {
	for i := range t.Parts {
		p := &t.Parts[i]
		w.read(&p.At, null, bad)
		w.check(&p.At, null, large)
		w.add(asm.Mov.Reg(asm.R1, readTexts), asm.Add.Reg(asm.R1, readEnd))
		if p.Size == 0 {
			w.add(asm.StoreMem(asm.R1, int16(p.Offset), asm.R3, asm.DWord))
			continue
		}
		w.add(asm.Add.Imm(asm.R1, int32(p.Offset)), asm.Mov.Imm(asm.R2, int32(p.Size)))
		w.copyUser()
		w.jump(asm.JNE.Imm(asm.R0, 0, ""), bad)
	}
	w.add(asm.Mov.Imm(asm.R0, int32(t.Max)))
}

// element writes code that stores the offset of an element at elementAt.
func (w *writer) element(e *Element, null, bad label) {
	for k := range e.Indexes {
		i := &e.Indexes[k]
		w.read(&i.By, null, bad)
		if i.Count > 0 {
			w.constant(asm.R1, i.Count)
			w.jump(asm.JGE.Reg(asm.R3, asm.R1, ""), null)
		}
		w.add(asm.Mul.Imm(asm.R3, int32(i.Size)))
		if k > 0 {
			w.add(asm.LoadMem(asm.R1, asm.RFP, elementAt, asm.DWord), asm.Add.Reg(asm.R3, asm.R1))
		}
		w.add(asm.StoreMem(asm.RFP, elementAt, asm.R3, asm.DWord))
	}
}

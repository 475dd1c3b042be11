package codegen

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/cilium/ebpf/asm"
)

// Integer says how a program comes by an integer of the target when it runs: from a
// register, or from memory that a register leads to. It is what location expressions of
// debug information and of probes come to.
type Integer struct {
	Register int16 // offset of the register in struct pt_regs, or
	Moment   bool  // of what plays its part in the moment, which was read before
	// Indexed: another register is added, shifted by Scale bits; Register is NoRegister
	// where that is all.
	Indexed bool
	Index   int16
	Scale   uint8
	Follow  []int64 // each time: the address has this added, and the 8 bytes there are the next address
	// Memory: the number is in memory, Offset from the last address; else it is the
	// register's, or if Address is set, the address itself, with Offset added.
	Memory, Address bool
	Offset          int64
	// Sum: the number is the register's with Offset added, whatever that is.
	Sum         bool
	Shift, Bits uint8 // which bits of the 8 bytes, from the lowest on; Bits 0: 64
	Signed      bool
	// Fits: what does not fit 63 bits is NULL, and said to be too large.
	Fits bool
	// Constant is the number itself if Known is set; nothing is read.
	Known    bool
	Constant int64
}

// NoRegister is none of struct pt_regs.
const NoRegister = -1

// Text says how a program comes by a text: from At on, as many bytes as Length says, or
// up to the first zero byte, of Chars bytes at most if that is set.
type Text struct {
	At     Integer
	Length *Integer
	Chars  int
	Max    int // bytes that are taken at most
	// Prefix: no more were asked for, so that a longer text loses nothing.
	Prefix bool
}

// Value is a number or a text, of one function. Both nil: NULL.
type Value struct {
	Number *Integer
	Text   *Text
	// Length: it is NULL unless this is Needs at least, as of an element of a slice.
	Length *Integer
	Needs  int64
}

// TextTest asks whether a text is one of some, or begins with one of them.
type TextTest struct {
	Column int   // of Reader.Columns
	Bit    uint8 // of the word of what is NULL, that is set for those
	Equal  []string
	Begin  []string
}

// Places of what is read, from the addresses that a reading program gets (values.h of
// package bpf).
type Places struct {
	Numbers   []int16 // by slot, in the moment
	Absent    int16   // the word in the moment of what is NULL, a bit for each slot and text
	TextBit   uint8   // the bit of the first text
	Cookie    int16   // of the moment
	Functions int32   // mask of the function's id in the cookie
	Header    int16   // bytes in front of texts: their size, 2 bytes, and 2 for each one's length
}

// Column is where a Reader puts a value: a slot of the moment's numbers or, of texts, the
// place among those.
type ReadColumn struct {
	Text bool
	Slot int
}

// Reader reads values of calls.
type Reader struct {
	Columns []ReadColumn
	Tests   []TextTest
	// Values has the values of each function, in the order of the columns.
	Values [][]Value
	// Before is how many bytes of texts there can be before.
	Before int
}

// What a reading program returns: bits.
const (
	unreadable = 1 << iota
	cutOff
	tooLarge
)

// The registers of a reading program, and what it has on its stack.
const (
	readMoment  = asm.R6
	readContext = asm.R7
	readTexts   = asm.R8
	readEnd     = asm.R9 // behind the texts that are there, from readTexts
	wordOnStack = -8
	failedAt    = -16
	lengthAt    = -24
)

// maxReads bounds what a reading program may have to do.
const maxReads = 512

// Compile makes the body of a function of the addresses of the moment, the registers and
// the texts: it returns what failed.
func (r *Reader) Compile(at Places) (asm.Instructions, error) {
	w := &writer{}
	w.add(asm.Mov.Reg(readMoment, asm.R1), asm.Mov.Reg(readContext, asm.R2), asm.Mov.Reg(readTexts, asm.R3),
		asm.Mov.Imm(asm.R0, 0), asm.StoreMem(asm.RFP, failedAt, asm.R0, asm.DWord))
	end := w.newLabel()
	if r.hasTexts() {
		if r.Before > 0 {
			w.add(asm.LoadMem(readEnd, readTexts, 0, asm.Half))
			w.jump(asm.JGT.Imm(readEnd, int32(r.Before), ""), end)
			w.add(asm.Add.Imm(readEnd, int32(at.Header)))
		} else {
			w.add(asm.Mov.Imm(readEnd, int32(at.Header)))
		}
	}
	groups := r.groups()
	if len(groups) > 1 {
		w.add(asm.LoadMem(operands[0], readMoment, at.Cookie, asm.DWord), asm.And.Imm(operands[0], at.Functions))
	}
	if err := r.dispatch(w, at, groups, end); err != nil {
		return nil, err
	}
	w.place(end)
	w.add(asm.LoadMem(asm.R0, asm.RFP, failedAt, asm.DWord), asm.Return())
	return w.finish()
}

func (r *Reader) hasTexts() bool {
	return slices.ContainsFunc(r.Columns, func(c ReadColumn) bool { return c.Text })
}

// group are consecutive functions with equal values.
type group struct {
	first  int
	values []Value
}

func (r *Reader) groups() (list []group) {
	last := ""
	for i, vs := range r.Values {
		name := ""
		for _, v := range vs {
			name += v.name() + ";"
		}
		if i == 0 || name != last {
			list = append(list, group{i, vs})
		}
		last = name
	}
	return list
}

// Identity is equal for readers that do the same only.
func (r *Reader) Identity() string {
	out := fmt.Sprintf("%v %v %d", r.Columns, r.Tests, r.Before)
	for _, g := range r.groups() {
		out += fmt.Sprintf("|%d", g.first)
		for _, v := range g.values {
			out += v.name() + ";"
		}
	}
	return out
}

// name is equal for equal values only.
func (v Value) name() string {
	if v.Length != nil {
		needs := fmt.Sprintf(" %+v %d", *v.Length, v.Needs)
		v.Length = nil
		return v.name() + needs
	}
	switch {
	case v.Number != nil:
		return fmt.Sprintf("%+v", *v.Number)
	case v.Text != nil && v.Text.Length != nil:
		return fmt.Sprintf("%+v %+v", *v.Text, *v.Text.Length)
	case v.Text != nil:
		return fmt.Sprintf("%+v", *v.Text)
	}
	return ""
}

// dispatch goes to the code of the function that the first operand is, by halving.
func (r *Reader) dispatch(w *writer, at Places, groups []group, end label) error {
	if len(groups) > maxReads {
		return fmt.Errorf("%d functions with values of their own, at most %d are possible", len(groups), maxReads)
	}
	if len(groups) == 0 {
		return nil
	}
	if len(groups) == 1 {
		r.group(w, at, groups[0].values)
		w.goTo(end)
		return nil
	}
	half := len(groups) / 2
	upper := w.newLabel()
	w.jump(asm.JGE.Imm(operands[0], int32(groups[half].first), ""), upper)
	if err := r.dispatch(w, at, groups[:half], end); err != nil {
		return err
	}
	w.place(upper)
	return r.dispatch(w, at, groups[half:], end)
}

// group writes what reads the values of a function. Texts come last: they use the
// register of their end.
func (r *Reader) group(w *writer, at Places, values []Value) {
	order := make([]int, len(r.Columns))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		kind := func(i int) int {
			if r.Columns[i].Text {
				return 1
			}
			return 0
		}
		return cmp.Compare(kind(a), kind(b))
	})
	for _, i := range order {
		c, v := r.Columns[i], values[i]
		switch {
		case c.Text:
			r.text(w, at, i, v)
		case v.Number == nil:
			w.absent(at, uint8(c.Slot))
		default:
			r.number(w, at, c, v)
		}
	}
	if r.hasTexts() {
		w.add(asm.Mov.Reg(asm.R1, readEnd), asm.Sub.Imm(asm.R1, int32(at.Header)), asm.StoreMem(readTexts, 0, asm.R1, asm.Half))
	}
}

// absent notes that something is NULL.
func (w *writer) absent(at Places, bit uint8) { w.flag(at, bit) }

// flag sets a bit of the word of what is NULL.
func (w *writer) flag(at Places, bit uint8) {
	w.add(asm.LoadMem(asm.R1, readMoment, at.Absent, asm.DWord), asm.LoadImm(asm.R2, 1<<bit, asm.DWord),
		asm.Or.Reg(asm.R1, asm.R2), asm.StoreMem(readMoment, at.Absent, asm.R1, asm.DWord))
}

// fail notes why something is NULL, or not whole.
func (w *writer) fail(why int32) {
	w.add(asm.LoadMem(asm.R1, asm.RFP, failedAt, asm.DWord), asm.Or.Imm(asm.R1, why), asm.StoreMem(asm.RFP, failedAt, asm.R1, asm.DWord))
}

// enough writes code that jumps to null where a value is none.
func (w *writer) enough(v Value, null, bad label) {
	if v.Length == nil {
		return
	}
	w.read(v.Length, null, bad)
	w.jump(asm.JSLT.Imm(asm.R3, int32(min(v.Needs, math.MaxInt32)), ""), null)
}

func (r *Reader) number(w *writer, at Places, c ReadColumn, v Value) {
	n := v.Number
	null, bad, large, done := w.newLabel(), w.newLabel(), w.newLabel(), w.newLabel()
	w.enough(v, null, bad)
	w.read(n, null, bad)
	if n.Fits {
		w.jump(asm.JSLT.Imm(asm.R3, 0, ""), large)
	}
	w.add(asm.StoreMem(readMoment, at.Numbers[c.Slot], asm.R3, asm.DWord))
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
		w.absent(at, uint8(c.Slot))
	}
	w.place(done)
}

// read writes code that leaves n in R3; it jumps to null where a pointer is, and to bad
// where memory cannot be read.
func (w *writer) read(n *Integer, null, bad label) {
	if n.Known {
		w.constant(asm.R3, n.Constant)
		return
	}
	from := readContext
	if n.Moment {
		from = readMoment
	}
	if n.Register == NoRegister {
		w.add(asm.Mov.Imm(asm.R3, 0))
	} else {
		w.add(asm.LoadMem(asm.R3, from, n.Register, asm.DWord))
	}
	if n.Indexed {
		w.add(asm.LoadMem(scratch, from, n.Index, asm.DWord), asm.LSh.Imm(scratch, int32(n.Scale)), asm.Add.Reg(asm.R3, scratch))
	}
	load := func(offset int64, size int32) {
		w.jump(asm.JEq.Imm(asm.R3, 0, ""), null)
		w.addTo(asm.R3, offset)
		if size < 8 {
			w.add(asm.Mov.Imm(asm.R0, 0), asm.StoreMem(asm.RFP, wordOnStack, asm.R0, asm.DWord))
		}
		w.add(asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, wordOnStack), asm.Mov.Imm(asm.R2, size), asm.FnProbeReadUser.Call())
		w.jump(asm.JNE.Imm(asm.R0, 0, ""), bad)
		w.add(asm.LoadMem(asm.R3, asm.RFP, wordOnStack, asm.DWord))
	}
	for _, offset := range n.Follow {
		load(offset, 8)
	}
	switch {
	case n.Memory:
		load(n.Offset, int32(n.bytes()))
	case n.Address:
		w.jump(asm.JEq.Imm(asm.R3, 0, ""), null)
		w.addTo(asm.R3, n.Offset)
		return
	case n.Sum:
		w.addTo(asm.R3, n.Offset)
	}
	if n.Bits == 0 || n.Bits == 64 {
		return
	}
	w.add(asm.LSh.Imm(asm.R3, int32(64-n.Bits-n.Shift)))
	if n.Signed {
		w.add(asm.ArSh.Imm(asm.R3, int32(64-n.Bits)))
	} else {
		w.add(asm.RSh.Imm(asm.R3, int32(64-n.Bits)))
	}
}

// bytes is how many bytes have the bits of a number.
func (n *Integer) bytes() int {
	if n.Bits == 0 {
		return 8
	}
	return (int(n.Shift) + int(n.Bits) + 7) / 8
}

// addTo adds a constant; it may change the scratch register.
func (w *writer) addTo(r asm.Register, c int64) {
	switch {
	case c == 0:
	case fits32(c):
		w.add(asm.Add.Imm(r, int32(c)))
	default:
		w.constant(scratch, c)
		w.add(asm.Add.Reg(r, scratch))
	}
}

// cutOff notes that t is longer than what is taken of it.
func (w *writer) cutOff(t *Text) {
	if !t.Prefix {
		w.fail(cutOff)
	}
}

// text writes what reads a text behind those that are there, and tests it.
func (r *Reader) text(w *writer, at Places, column int, v Value) {
	slot, t := r.Columns[column].Slot, v.Text
	if t == nil { // its length says so already
		w.absent(at, at.TextBit+uint8(slot))
		return
	}
	null, bad, done := w.newLabel(), w.newLabel(), w.newLabel()
	w.enough(v, null, bad)
	if t.Length != nil {
		w.read(t.Length, null, bad)
		w.add(asm.StoreMem(asm.RFP, lengthAt, asm.R3, asm.DWord))
		empty, read := w.newLabel(), w.newLabel()
		w.jump(asm.JEq.Imm(asm.R3, 0, ""), empty) // of which the address means nothing
		w.read(&t.At, null, bad)
		w.jump(asm.JEq.Imm(asm.R3, 0, ""), null)
		w.add(asm.LoadMem(asm.R2, asm.RFP, lengthAt, asm.DWord))
		w.jump(asm.JLE.Imm(asm.R2, int32(t.Max), ""), read)
		w.cutOff(t)
		w.add(asm.Mov.Imm(asm.R2, int32(t.Max)), asm.StoreMem(asm.RFP, lengthAt, asm.R2, asm.DWord))
		w.place(read)
		w.add(asm.Mov.Reg(asm.R1, readTexts), asm.Add.Reg(asm.R1, readEnd), asm.FnProbeReadUser.Call())
		w.jump(asm.JNE.Imm(asm.R0, 0, ""), bad)
		w.place(empty)
		w.add(asm.LoadMem(asm.R0, asm.RFP, lengthAt, asm.DWord))
		w.jump(asm.JGT.Imm(asm.R0, int32(t.Max), ""), bad) // never: for the verifier
	} else {
		w.read(&t.At, null, bad)
		w.jump(asm.JEq.Imm(asm.R3, 0, ""), null)
		// One byte more than there may be tells whether there are more, and the
		// kernel puts a zero byte behind.
		size, whole := t.Max+2, w.newLabel()
		if t.Chars > 0 {
			size = min(size, t.Chars+1)
		}
		w.add(asm.Mov.Reg(asm.R1, readTexts), asm.Add.Reg(asm.R1, readEnd), asm.Mov.Imm(asm.R2, int32(size)), asm.FnProbeReadUserStr.Call())
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
	if w.used(bad) {
		w.place(bad)
		w.fail(unreadable)
	}
	w.place(null)
	w.absent(at, at.TextBit+uint8(slot))
	w.place(done)
}

// testText sets a bit if the text of length R0 at the end passes. It leaves R0.
func (w *writer) testText(t *TextTest, most int, at Places) {
	found, end := w.newLabel(), w.newLabel()
	w.add(asm.Mov.Reg(asm.R4, readTexts), asm.Add.Reg(asm.R4, readEnd))
	compare := func(s string, op asm.JumpOp) {
		if len(s) > most { // none is so long
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

// piece is what one load has of the beginning of s: its value and how many bytes.
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

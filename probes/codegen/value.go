package codegen

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/cilium/ebpf/asm"
)

// Integer is how a program reads an integer of the target: from a register, or
// from memory that a register points to. Location expressions of debug
// information and of probes compile to it.
type Integer struct {
	Register int16 // offset of the register in struct pt_regs, or
	Moment   bool  // of a value in the moment that replaces it, read before
	// Indexed: another register is added, shifted by Scale bits; Register is
	// NoRegister if that is all.
	Indexed bool
	Index   int16
	Scale   uint8
	Follow  []int64 // each is added to the address, and the 8 bytes there are the next address
	// Memory: the number is in memory, at Offset from the last address;
	// otherwise it is the register's value or, if Address is set, the address
	// itself, with Offset added.
	Memory, Address bool
	Offset          int64
	// Sum: the number is the register's value with Offset added, wrapping.
	Sum         bool
	Shift, Bits uint8 // which bits of the 8 bytes, from the lowest on; Bits 0: 64
	Signed      bool
	// Fits: a number that does not fit 63 bits is NULL, and reported as too
	// large. NotZero: 0 is NULL.
	Fits, NotZero bool
	// Constant is the number itself if Known is set; nothing is read.
	Known    bool
	Constant int64
	// Element is added to the address; nil: nothing is.
	Element *Element
}

// NoRegister is no register of struct pt_regs.
const NoRegister = -1

// Text is how a program reads a text: from At on, as many bytes as Length says,
// or up to the first zero byte, of Chars bytes at most if that is set.
type Text struct {
	At     Integer
	Length *Integer
	Chars  int
	Max    int // maximum number of bytes read
	// Prefix: the query uses no more than Max, so that a longer text is not
	// truncated.
	Prefix bool
	// Parts, if there are any, are the bytes instead, Max of them.
	Parts []Part
}

// Value is a number or a text, for one function. Both nil: NULL.
type Value struct {
	Number *Integer
	Text   *Text
	// Length: the value is NULL unless this is at least Needs, as for an
	// element of a slice, or greater than Index if that is set.
	Length *Integer
	Needs  int64
	Index  *Integer
}

// TextTest tests whether a text is, or begins with, one of several.
type TextTest struct {
	Column int   // index in Reader.Columns
	Bit    uint8 // bit in the word of NULLs, set for texts that pass
	Equal  []string
	Begin  []string
}

// Places are offsets from the addresses that a reading program receives
// (values.h of package bpf).
type Places struct {
	Numbers   []int16 // by slot, in the moment
	Absent    int16   // word of NULLs in the moment, with a bit for each slot and text
	TextBit   uint8   // bit of the first text
	Cookie    int16   // in the moment
	Functions int32   // mask of the function's id in the cookie
	Header    int16   // bytes before the texts: their size, 2 bytes, and 2 for the length of each
}

// ReadColumn is where a Reader stores a value: a slot of the moment's numbers
// or, for a text, its index among the texts.
type ReadColumn struct {
	Text bool
	Slot int
}

// Reader reads values of calls.
type Reader struct {
	Columns []ReadColumn
	Tests   []TextTest
	// Values are the values of each function, in the order of the columns.
	Values [][]Value
	// Before is the maximum size of preceding texts.
	Before int
}

// Bits of a reading program's result.
const (
	unreadable = 1 << iota
	cutOff
	tooLarge
)

// Registers of a reading program, and its stack slots.
const (
	readMoment  = asm.R6
	readContext = asm.R7
	readTexts   = asm.R8
	readEnd     = asm.R9 // end of the texts so far, from readTexts
	wordOnStack = -8
	failedAt    = -16
	lengthAt    = -24
	elementAt   = -32
)

// maxReads limits the reads of a reading program.
const maxReads = 512

// Compile returns the body of a function of the addresses of the moment, the
// registers and the texts; its result says what failed. wait is nil in a
// program that does not wait for memory: what is not present is unreadable.
func (r *Reader) Compile(at Places, wait *Waiting) (asm.Instructions, error) {
	w := &writer{wait: wait}
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

// group is consecutive functions with equal values.
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

// dispatch jumps to the code of the function in the first operand, by
// bisection.
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

// group writes code that reads the values of a function. Texts come last: they
// use the register of their end.
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

// absent writes code that sets the NULL bit of a value.
func (w *writer) absent(at Places, bit uint8) { w.flag(at, bit) }

// flag writes code that sets a bit of the word of NULLs.
func (w *writer) flag(at Places, bit uint8) {
	w.add(asm.LoadMem(asm.R1, readMoment, at.Absent, asm.DWord), asm.LoadImm(asm.R2, 1<<bit, asm.DWord),
		asm.Or.Reg(asm.R1, asm.R2), asm.StoreMem(readMoment, at.Absent, asm.R1, asm.DWord))
}

// fail writes code that records why a value is NULL, or truncated.
func (w *writer) fail(why int32) {
	w.add(asm.LoadMem(asm.R1, asm.RFP, failedAt, asm.DWord), asm.Or.Imm(asm.R1, why), asm.StoreMem(asm.RFP, failedAt, asm.R1, asm.DWord))
}

// enough writes code that jumps to null if the slice is too short for the
// value.
func (w *writer) enough(v Value, null, bad label) {
	if v.Length == nil {
		return
	}
	if v.Index == nil {
		w.read(v.Length, null, bad)
		w.jump(asm.JSLT.Imm(asm.R3, int32(min(v.Needs, math.MaxInt32)), ""), null)
		return
	}
	w.read(v.Index, null, bad)
	w.add(asm.StoreMem(asm.RFP, elementAt, asm.R3, asm.DWord))
	w.read(v.Length, null, bad)
	w.add(asm.LoadMem(asm.R1, asm.RFP, elementAt, asm.DWord))
	w.jump(asm.JLE.Reg(asm.R3, asm.R1, ""), null) // a negative index is larger than any length
}

func (r *Reader) number(w *writer, at Places, c ReadColumn, v Value) {
	n := v.Number
	null, bad, large, done := w.newLabel(), w.newLabel(), w.newLabel(), w.newLabel()
	w.enough(v, null, bad)
	w.read(n, null, bad)
	w.check(n, null, large)
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

// check writes code that jumps to null or large if the number in R3 is none of n.
func (w *writer) check(n *Integer, null, large label) {
	if n.Fits {
		w.jump(asm.JSLT.Imm(asm.R3, 0, ""), large)
	}
	if n.NotZero {
		w.jump(asm.JEq.Imm(asm.R3, 0, ""), null)
	}
}

// read writes code that leaves n in R3; it jumps to null if a pointer is null,
// and to bad if memory cannot be read.
func (w *writer) read(n *Integer, null, bad label) {
	if n.Known {
		w.constant(asm.R3, n.Constant)
		return
	}
	if n.Element != nil {
		w.element(n.Element, null, bad)
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
		w.add(asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, wordOnStack), asm.Mov.Imm(asm.R2, size))
		w.copyUser()
		w.jump(asm.JNE.Imm(asm.R0, 0, ""), bad)
		w.add(asm.LoadMem(asm.R3, asm.RFP, wordOnStack, asm.DWord))
	}
	addElement := func(loaded int) {
		if n.Element != nil && n.Element.After == loaded {
			w.jump(asm.JEq.Imm(asm.R3, 0, ""), null)
			w.add(asm.LoadMem(scratch, asm.RFP, elementAt, asm.DWord), asm.Add.Reg(asm.R3, scratch))
		}
	}
	addElement(0)
	for i, offset := range n.Follow {
		load(offset, 8)
		addElement(i + 1)
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

// bytes returns the number of bytes that contain the bits of a number.
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

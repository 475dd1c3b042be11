package unwind

import "endoscope/probes/dwarf/leb128"

// Call frame instructions (DWARF 5, 7.24). The primary ones carry an operand
// in their low six bits.
const (
	cfaAdvance = 1 << 6
	cfaOffset  = 2 << 6
	cfaRestore = 3 << 6

	cfaNop                    = 0x00
	cfaAdvance1               = 0x02
	cfaAdvance2               = 0x03
	cfaAdvance4               = 0x04
	cfaOffsetExtended         = 0x05
	cfaRestoreExtended        = 0x06
	cfaUndefined              = 0x07
	cfaSameValue              = 0x08
	cfaRegister               = 0x09
	cfaRememberState          = 0x0a
	cfaRestoreState           = 0x0b
	cfaDefCFA                 = 0x0c
	cfaDefCFARegister         = 0x0d
	cfaDefCFAOffset           = 0x0e
	cfaDefCFAExpression       = 0x0f
	cfaExpression             = 0x10
	cfaOffsetExtendedSigned   = 0x11
	cfaDefCFASigned           = 0x12
	cfaDefCFAOffsetSigned     = 0x13
	cfaValOffset              = 0x14
	cfaValOffsetSigned        = 0x15
	cfaValExpression          = 0x16
	cfaGNUArgsSize            = 0x2e
	cfaGNUNegativeOffsetExten = 0x2f
)

// frameWalk iterates over a call frame program up to the end of the row for an
// address: next sets do and the fields below to the next change of the row. The
// caller keeps the part of the row that it needs: only the return address
// (probe sites), or all registers (stacks).
type frameWalk struct {
	r       leb128.Reader
	c       *common
	loc, pc uint64
	only    uint64 // the one register needed; allRegisters: all
	unknown bool   // an unknown instruction, or a damaged table

	do     frameChange
	reg    uint64   // the register, or that of the CFA
	how    SavedHow // for setRegister
	offset int64    // for setRegister, setCFA and setCFAOffset
	expr   []byte   // for setCFAExpression, and setRegister by expression
}

// frameChange is the effect of an instruction on the row.
type frameChange uint8

const (
	setCFA frameChange = iota
	setCFARegister
	setCFAOffset
	setCFAExpression
	setRegister
	restoreRegister // to its rule at the function's start
	rememberState
	restoreState
)

// maxRemembered limits the states remembered at a time.
const maxRemembered = 64

const allRegisters = ^uint64(0)

func walkFrame(program []byte, c *common, loc, pc, only uint64) frameWalk {
	return frameWalk{r: leb128.NewReader(program), c: c, loc: loc, pc: pc, only: only}
}

// complete reports whether the walk reached its end without error.
func (w *frameWalk) complete() bool { return !w.unknown && !w.r.Failed() }

// next advances to the next change; false at the end or on error.
func (w *frameWalk) next() bool {
	r := &w.r
	for r.Len() > 0 && !r.Failed() && w.loc <= w.pc {
		op := r.Byte()
		switch operand := uint64(op & 0x3f); op & 0xc0 {
		case cfaAdvance:
			w.loc += operand * w.c.codeAlign
			continue
		case cfaOffset:
			n := r.Uleb()
			if w.only != operand && w.only != allRegisters {
				continue
			}
			w.set(operand, AtOffset, w.factored(n))
			return true
		case cfaRestore:
			w.do, w.reg = restoreRegister, operand
			return true
		}
		switch op {
		case cfaNop:
			continue
		case cfaAdvance1:
			w.loc += uint64(r.Byte()) * w.c.codeAlign
			continue
		case cfaAdvance2:
			w.loc += r.Uint(2) * w.c.codeAlign
			continue
		case cfaAdvance4:
			w.loc += r.Uint(4) * w.c.codeAlign
			continue
		case cfaGNUArgsSize:
			r.Uleb()
			continue
		case cfaDefCFA:
			w.do, w.reg, w.offset = setCFA, r.Uleb(), int64(r.Uleb())
		case cfaDefCFASigned:
			w.do, w.reg, w.offset = setCFA, r.Uleb(), r.Sleb()*w.c.dataAlign
		case cfaDefCFARegister:
			w.do, w.reg = setCFARegister, r.Uleb()
		case cfaDefCFAOffset:
			w.do, w.offset = setCFAOffset, int64(r.Uleb())
		case cfaDefCFAOffsetSigned:
			w.do, w.offset = setCFAOffset, r.Sleb()*w.c.dataAlign
		case cfaDefCFAExpression:
			w.do, w.expr = setCFAExpression, r.Block()
		case cfaRememberState:
			w.do = rememberState
		case cfaRestoreState:
			w.do = restoreState
		case cfaRestoreExtended:
			w.do, w.reg = restoreRegister, r.Uleb()
		default:
			return w.nextRegister(op)
		}
		return true
	}
	return false
}

// nextRegister is next for the rarer register rules.
func (w *frameWalk) nextRegister(op byte) bool {
	r := &w.r
	reg := r.Uleb()
	switch op {
	case cfaOffsetExtended:
		w.set(reg, AtOffset, w.factored(r.Uleb()))
	case cfaOffsetExtendedSigned:
		w.set(reg, AtOffset, r.Sleb()*w.c.dataAlign)
	case cfaGNUNegativeOffsetExten:
		w.set(reg, AtOffset, -w.factored(r.Uleb()))
	case cfaUndefined:
		w.set(reg, lost, 0)
	case cfaSameValue:
		w.set(reg, unchanged, 0)
	case cfaRegister:
		w.set(reg, InRegister, int64(r.Uleb()))
	case cfaValOffset:
		w.set(reg, IsOffset, w.factored(r.Uleb()))
	case cfaValOffsetSigned:
		w.set(reg, IsOffset, r.Sleb()*w.c.dataAlign)
	case cfaExpression:
		w.set(reg, AtExpression, 0)
		w.expr = r.Block()
	case cfaValExpression:
		w.set(reg, IsExpression, 0)
		w.expr = r.Block()
	default:
		w.unknown = true
		return false
	}
	return true
}

func (w *frameWalk) set(reg uint64, how SavedHow, offset int64) {
	w.do, w.reg, w.how, w.offset = setRegister, reg, how, offset
}

func (w *frameWalk) factored(n uint64) int64 { return int64(n) * w.c.dataAlign }

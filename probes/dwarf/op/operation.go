package op

import "endoscope/probes/dwarf/leb128"

// Operations (DWARF 5, 7.7.1). Among those that differ only in their operand,
// the one with the most general operand represents all.
const (
	Addr          = 0x03
	Deref         = 0x06
	Const1u       = 0x08
	Const4u       = 0x0c
	Const8u       = 0x0e
	Const8s       = 0x0f
	Constu        = 0x10
	Consts        = 0x11 // in an Operation: any constant, including Lit0 and following
	Dup           = 0x12
	Drop          = 0x13
	Over          = 0x14
	Pick          = 0x15
	Swap          = 0x16
	And           = 0x1a
	Minus         = 0x1c
	Mul           = 0x1e
	Neg           = 0x1f
	Not           = 0x20
	Or            = 0x21
	Plus          = 0x22
	PlusUconst    = 0x23
	Shl           = 0x24
	Shr           = 0x25
	Shra          = 0x26
	Xor           = 0x27
	Bra           = 0x28
	Eq            = 0x29
	Ge            = 0x2a
	Gt            = 0x2b
	Le            = 0x2c
	Lt            = 0x2d
	Ne            = 0x2e
	Skip          = 0x2f
	Lit0          = 0x30
	Lit31         = 0x4f
	Reg0          = 0x50 // in an Operation: any register
	Reg31         = 0x6f
	Breg0         = 0x70 // in an Operation: any register
	Breg31        = 0x8f
	Fbreg         = 0x91
	PieceOf       = 0x93
	Nop           = 0x96
	CallFrameCFA  = 0x9c
	ImplicitValue = 0x9e
	StackValue    = 0x9f
	Addrx         = 0xa1
	Constx        = 0xa2 // not known to Next
	EntryValue    = 0xa3
	GNUEntryValue = 0xf3
	GNUAddrIndex  = 0xfb
	GNUConstIndex = 0xfc // not known to Next
)

// Operation is an operation with its operands.
type Operation struct {
	Code     byte
	Register int    // for Reg0 and Breg0
	Value    int64  // the number, if the operation has one
	Block    []byte // for ImplicitValue and EntryValue
}

// Next reads an operation; ok is false if it is unknown. r reports whether its
// operands are complete.
func Next(r *leb128.Reader) (o Operation, ok bool) {
	o.Code = r.Byte()
	switch code := o.Code; {
	case Lit0 <= code && code <= Lit31:
		o.Code, o.Value = Consts, int64(code-Lit0)
		return o, true
	case Reg0 <= code && code <= Reg31:
		o.Code, o.Register = Reg0, int(code-Reg0)
		return o, true
	case Breg0 <= code && code <= Breg31:
		o.Code, o.Register, o.Value = Breg0, int(code-Breg0), r.Sleb()
		return o, true
	case Const1u <= code && code <= Const8s:
		size := 1 << ((code - Const1u) / 2)
		if o.Code = Consts; (code-Const1u)%2 == 1 {
			o.Value = r.Int(size)
		} else {
			o.Value = int64(r.Uint(size))
		}
		return o, true
	}
	switch o.Code {
	case Addr:
		o.Value = int64(r.Uint(8))
	case Constu:
		o.Code, o.Value = Consts, int64(r.Uleb())
	case Pick:
		o.Value = int64(r.Byte())
	case Bra, Skip:
		o.Value = r.Int(2)
	case PlusUconst, PieceOf, Addrx, GNUAddrIndex:
		o.Value = int64(r.Uleb())
	case Consts, Fbreg:
		o.Value = r.Sleb()
	case ImplicitValue, EntryValue:
		o.Block = r.Block()
	case GNUEntryValue:
		o.Code, o.Block = EntryValue, r.Block()
	case Deref, Dup, Drop, Over, Swap, And, Minus, Mul, Neg, Not, Or, Plus, Shl, Shr, Shra, Xor, Eq, Ge, Gt, Le, Lt, Ne, Nop, CallFrameCFA, StackValue:
	default:
		return o, false
	}
	return o, true
}

package signature

import (
	"debug/dwarf"
	"encoding/binary"
	"errors"
	"slices"
)

// piece is where some bytes of an object are.
type piece struct {
	kind   pieceKind
	reg    int   // DWARF's number of a register
	offset int64 // of memory, from what the register has; of a constant, itself
	at     int64 // of the object's bytes, the first one here
	size   int64 // bytes; 0: all that is left
	// follow: as in codegen.Integer, before offset is added
	follow []int64
}

type pieceKind uint8

const (
	nowhere    pieceKind = iota
	inRegister           // the register has them
	inMemory             // they lie offset bytes from where the register points
	constant
	computed // what the register has plus offset is the number itself
)

// cfa stands for the canonical frame address among registers: it is 8 bytes above the
// return address.
const cfa = -1

// Operations of location expressions (DWARF 5, 7.7.1).
const (
	opAddr          = 0x03
	opDeref         = 0x06
	opConst1u       = 0x08
	opConst1s       = 0x09
	opConst2u       = 0x0a
	opConst2s       = 0x0b
	opConst4u       = 0x0c
	opConst4s       = 0x0d
	opConst8u       = 0x0e
	opConst8s       = 0x0f
	opConstu        = 0x10
	opConsts        = 0x11
	opPlusUconst    = 0x23
	opLit0          = 0x30
	opLit31         = 0x4f
	opReg0          = 0x50
	opReg31         = 0x6f
	opBreg0         = 0x70
	opBreg31        = 0x8f
	opFbreg         = 0x91
	opPiece         = 0x93
	opCallFrameCFA  = 0x9c
	opImplicitValue = 0x9e
	opStackValue    = 0x9f
	opEntryValue    = 0xa3
	opGNUEntryValue = 0xf3
)

var errNotAtEntry = errors.New("is not where it can be read when the function is entered")

// evaluate follows a location expression as far as such are that hold at the entry of a
// function. frameIsCFA says that the frame base is the canonical frame address.
func evaluate(expr []byte, frameIsCFA bool) ([]piece, error) {
	return evaluateWithin(expr, frameIsCFA, false)
}

// maxPieces is how many pieces an object may be in.
const maxPieces = 64

// evaluateWithin is evaluate; atEntry says that the expression is itself the operand of a
// DW_OP_entry_value, which has none within it.
func evaluateWithin(expr []byte, frameIsCFA, atEntry bool) ([]piece, error) {
	var out []piece
	b := decoder{data: expr}
	cur, isValue, at := piece{}, false, int64(0)
	for !b.done() {
		op := int(b.byte())
		switch {
		case opReg0 <= op && op <= opReg31:
			cur = piece{kind: inRegister, reg: op - opReg0}
		case opBreg0 <= op && op <= opBreg31:
			cur = piece{kind: inMemory, reg: op - opBreg0, offset: b.signed()}
		case op == opFbreg && frameIsCFA:
			cur = piece{kind: inMemory, reg: cfa, offset: b.signed()}
		case op == opCallFrameCFA:
			cur = piece{kind: inMemory, reg: cfa}
		case opLit0 <= op && op <= opLit31:
			cur = piece{kind: constant, offset: int64(op - opLit0)}
		case op == opConstu:
			cur = piece{kind: constant, offset: int64(b.unsigned())}
		case op == opConsts:
			cur = piece{kind: constant, offset: b.signed()}
		case opConst1u <= op && op <= opConst8s:
			size := 1 << ((op - opConst1u) / 2)
			cur = piece{kind: constant, offset: b.fixed(size, (op-opConst1u)%2 == 1)}
		case op == opPlusUconst && cur.kind == inMemory:
			cur.offset += int64(b.unsigned())
		case op == opStackValue:
			isValue = true
			if cur.kind == inMemory {
				if cur.offset != 0 || cur.reg == cfa {
					return nil, errNotAtEntry
				}
				cur.kind = inRegister
			}
		case !atEntry && (op == opEntryValue || op == opGNUEntryValue):
			inner, err := evaluateWithin(b.block(), frameIsCFA, true)
			if err != nil || len(inner) != 1 || inner[0].kind != inRegister {
				return nil, errNotAtEntry
			}
			// What the register had at the entry is what it has there.
			cur = piece{kind: inMemory, reg: inner[0].reg}
		case op == opPiece && len(out) < maxPieces:
			cur.at, cur.size = at, int64(b.unsigned())
			at += cur.size
			out = append(out, cur)
			cur, isValue = piece{}, false
			continue
		default:
			return nil, errNotAtEntry
		}
		if b.bad {
			return nil, errors.New("has damaged debug information")
		}
	}
	if cur.kind == constant && !isValue && len(out) == 0 {
		return nil, errNotAtEntry // an address
	}
	if len(out) == 0 {
		out = append(out, cur)
	}
	if !slices.ContainsFunc(out, func(p piece) bool { return p.kind != nowhere }) {
		return nil, errNotAtEntry
	}
	return out, nil
}

// decoder reads numbers as DWARF has them.
type decoder struct {
	data []byte
	bad  bool
}

func (b *decoder) done() bool { return b.bad || len(b.data) == 0 }

func (b *decoder) take(n uint64) []byte {
	if n > uint64(len(b.data)) {
		b.bad, b.data = true, nil
		return make([]byte, min(n, 8))
	}
	out := b.data[:n]
	b.data = b.data[n:]
	return out
}

func (b *decoder) byte() byte { return b.take(1)[0] }

func (b *decoder) block() []byte {
	n := b.unsigned()
	if n > uint64(len(b.data)) {
		b.bad = true
		return nil
	}
	return b.take(n)
}

func (b *decoder) fixed(size int, signed bool) int64 {
	var v uint64
	for i, c := range b.take(uint64(size)) {
		v |= uint64(c) << (8 * i)
	}
	if shift := 64 - 8*size; signed {
		return int64(v<<shift) >> shift
	}
	return int64(v)
}

func (b *decoder) unsigned() (v uint64) {
	for shift := 0; shift < 64; shift += 7 {
		c := b.byte()
		v |= uint64(c&0x7f) << shift
		if c < 0x80 || b.bad {
			return v
		}
	}
	b.bad = true
	return v
}

func (b *decoder) signed() (v int64) {
	for shift := 0; shift < 64; {
		c := b.byte()
		v |= int64(c&0x7f) << shift
		if shift += 7; c < 0x80 || b.bad {
			if c&0x40 != 0 && shift < 64 {
				v |= -1 << shift
			}
			return v
		}
	}
	b.bad = true
	return v
}

// located is the expression of a location that holds at pc. whole: it does in all of the
// function's code. nil: there is none.
func (f *Info) located(unit, e *dwarf.Entry, pc uint64) (expr []byte, whole bool, err error) {
	field := e.AttrField(dwarf.AttrLocation)
	if field == nil {
		return nil, false, nil
	}
	base, _ := unit.Val(dwarf.AttrLowpc).(uint64)
	switch v := field.Val.(type) {
	case []byte:
		return v, true, nil
	case int64:
		if f.d.LocationLists != nil && f.d.Locations == nil || f.isVersion5(unit) {
			expr, err = f.findLocation5(unit, uint64(v), base, pc)
		} else {
			expr, err = f.findLocation4(uint64(v), base, pc)
		}
		return expr, false, err
	case uint64: // an index
		start, ok := unit.Val(dwarf.AttrLoclistsBase).(int64)
		if !ok {
			start = 12 // behind the header of the only table
		}
		at := uint64(start) + 4*v
		if at+4 > uint64(len(f.d.LocationLists)) {
			return nil, false, errors.New("has damaged debug information")
		}
		expr, err = f.findLocation5(unit, uint64(start)+uint64(binary.LittleEndian.Uint32(f.d.LocationLists[at:])), base, pc)
		return expr, false, err
	}
	return nil, false, nil
}

// isVersion5 reports whether a unit is of DWARF 5, as far as its attributes tell.
func (f *Info) isVersion5(unit *dwarf.Entry) bool {
	return f.d.LocationLists != nil && (unit.Val(dwarf.AttrLoclistsBase) != nil || unit.Val(dwarf.AttrRnglistsBase) != nil ||
		unit.Val(dwarf.AttrAddrBase) != nil || f.d.Locations == nil)
}

// findLocation4 looks through a list of .debug_loc.
func (f *Info) findLocation4(at, base, pc uint64) ([]byte, error) {
	if at > uint64(len(f.d.Locations)) {
		return nil, errors.New("has damaged debug information")
	}
	b := decoder{data: f.d.Locations[at:]}
	for !b.done() {
		if err := f.spend(1); err != nil {
			return nil, err
		}
		low, high := uint64(b.fixed(8, false)), uint64(b.fixed(8, false))
		switch {
		case low == 0 && high == 0:
			return nil, nil
		case low == ^uint64(0):
			base = high
			continue
		}
		expr := b.take(uint64(b.fixed(2, false)))
		if !b.bad && base+low <= pc && pc < base+high {
			return expr, nil
		}
	}
	return nil, errors.New("has damaged debug information")
}

// findLocation5 looks through a list of .debug_loclists (DWARF 5, 7.7.3).
func (f *Info) findLocation5(unit *dwarf.Entry, at, base, pc uint64) ([]byte, error) {
	if at > uint64(len(f.d.LocationLists)) {
		return nil, errors.New("has damaged debug information")
	}
	table, _ := unit.Val(dwarf.AttrAddrBase).(int64)
	address := func(i uint64) uint64 {
		p := uint64(table) + 8*i
		if p+8 > uint64(len(f.d.Addresses)) {
			return 0
		}
		return binary.LittleEndian.Uint64(f.d.Addresses[p:])
	}
	b := decoder{data: f.d.LocationLists[at:]}
	for !b.done() {
		if err := f.spend(1); err != nil {
			return nil, err
		}
		var low, high uint64
		holds := false
		switch b.byte() {
		case 0: // DW_LLE_end_of_list
			return nil, nil
		case 1: // base_addressx
			base = address(b.unsigned())
			continue
		case 2: // startx_endx
			low, high = address(b.unsigned()), address(b.unsigned())
		case 3: // startx_length
			low = address(b.unsigned())
			high = low + b.unsigned()
		case 4: // offset_pair
			low = base + b.unsigned()
			high = base + b.unsigned()
		case 5: // default_location
			holds = true
		case 6: // base_address
			base = uint64(b.fixed(8, false))
			continue
		case 7: // start_end
			low, high = uint64(b.fixed(8, false)), uint64(b.fixed(8, false))
		case 8: // start_length
			low = uint64(b.fixed(8, false))
			high = low + b.unsigned()
		case 9: // GNU_view_pair
			b.unsigned()
			b.unsigned()
			continue
		default:
			return nil, errors.New("has damaged debug information")
		}
		expr := b.block()
		if !b.bad && (holds || low <= pc && pc < high) {
			return expr, nil
		}
	}
	return nil, errors.New("has damaged debug information")
}

package symbols

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
)

// The unwind table (.eh_frame) says which code belongs together and, for each
// instruction, where the return address lies. delve's parser is not used: it
// drops the language-specific data and refuses whole tables for one unknown
// letter.

// unwindTable is a parsed .eh_frame.
type unwindTable struct {
	entries []unwindEntry // FDEs, sorted by start
	// exceptions tells that a CIE has a personality routine and
	// language-specific data (augmentation "zPLR"): unwinding may run code of
	// the module, and end there.
	exceptions bool
}

// unwindEntry (an FDE) covers one contiguous piece of code.
type unwindEntry struct {
	span
	common  *unwindCommon
	program []byte
}

// unwindCommon (a CIE) is what entries share.
type unwindCommon struct {
	codeAlign   uint64
	dataAlign   int64
	returnReg   uint64
	pointers    byte // DW_EH_PE encoding of addresses
	augmented   bool // entries carry augmentation data
	signalFrame bool
	program     []byte
}

// unwindRow says where the caller's frame and the return address are.
type unwindRow struct {
	cfaReg    uint64
	cfaOffset int64
	cfaKnown  bool   // register plus offset, not an expression
	ra        int64  // offset of the return address from the CFA
	raKnown   bool   // saved at a fixed offset
	until     uint64 // address of the next row
}

// atEntry reports whether the row is that of a function just called: the
// return address is on top of the stack.
func (r unwindRow) atEntry() bool {
	return r.cfaKnown && r.cfaReg == dwarfRSP && r.cfaOffset == 8 && r.raKnown && r.ra == -8
}

// x86-64 psABI, figure 3.36.
const (
	dwarfRBP = 6
	dwarfRSP = 7
)

var errFrame = errors.New("damaged unwind table")

// parseUnwind parses an .eh_frame that is loaded at addr.
func parseUnwind(data []byte, addr uint64) (t *unwindTable, err error) {
	t = &unwindTable{}
	commons := map[int]*unwindCommon{}
	for pos := 0; pos+4 <= len(data); {
		length := uint64(binary.LittleEndian.Uint32(data[pos:]))
		body := pos + 4
		if length == 0 { // a terminator; linked objects may follow it
			pos = body
			continue
		}
		if length == 0xffffffff { // 64-bit format
			if body+8 > len(data) {
				return t, errFrame
			}
			length = binary.LittleEndian.Uint64(data[body:])
			body += 8
		}
		if length < 4 || length > uint64(len(data)-body) {
			return t, errFrame
		}
		end := body + int(length)
		id := binary.LittleEndian.Uint32(data[body:])
		if id == 0 {
			c, exceptions := parseCommon(data[body+4:end], addr+uint64(body)+4)
			commons[pos] = c
			t.exceptions = t.exceptions || exceptions
		} else if c := commons[body-int(id)]; c != nil {
			if e, ok := parseEntry(data[body+4:end], addr+uint64(body)+4, c); ok {
				t.entries = append(t.entries, e)
			}
		}
		if len(t.entries) > maxFunctions {
			return t, errFrame
		}
		pos = end
	}
	slices.SortFunc(t.entries, func(a, b unwindEntry) int { return cmp.Compare(a.start, b.start) })
	return t, nil
}

// parseCommon parses a CIE after its id; nil if it is not understood, and its
// entries then are unknown.
func parseCommon(b []byte, addr uint64) (c *unwindCommon, exceptions bool) {
	r := frameReader{b: b, addr: addr}
	version := r.byte()
	augmentation := r.cstring()
	c = &unwindCommon{codeAlign: r.uleb(), dataAlign: r.sleb()}
	if version == 1 {
		c.returnReg = uint64(r.byte())
	} else {
		c.returnReg = r.uleb()
	}
	if augmentation == "" {
		c.program = r.b
		return c, false
	}
	if augmentation[0] != 'z' {
		return nil, false
	}
	c.augmented = true
	n := r.uleb()
	if n > uint64(len(r.b)) {
		return nil, false
	}
	after := r.b[n:]
	var personality, language bool
	for _, letter := range augmentation[1:] {
		switch letter {
		case 'L':
			r.byte()
			language = true
		case 'P':
			r.pointer(r.byte() &^ peIndirect)
			personality = true
		case 'R':
			c.pointers = r.byte()
		case 'S':
			c.signalFrame = true
		case 'B': // return addresses signed: not on x86
		default:
			return nil, personality && language
		}
	}
	c.program = after
	if r.bad {
		return nil, personality && language
	}
	return c, personality && language
}

// parseEntry parses an FDE after its CIE pointer.
func parseEntry(b []byte, addr uint64, c *unwindCommon) (unwindEntry, bool) {
	r := frameReader{b: b, addr: addr}
	start := r.pointer(c.pointers)
	size := r.pointer(c.pointers & 0x0f) // a length is relative to nothing
	if c.augmented {
		r.skip(r.uleb()) // the pointer to language-specific data
	}
	if r.bad || size == 0 || start+size < start {
		return unwindEntry{}, false
	}
	return unwindEntry{span{start, start + size}, c, r.b}, true
}

// find returns the entry that covers pc, or nil.
func (t *unwindTable) find(pc uint64) *unwindEntry {
	i, found := slices.BinarySearchFunc(t.entries, pc, func(e unwindEntry, pc uint64) int { return cmp.Compare(e.start, pc) })
	if !found {
		i--
	}
	if i < 0 || !t.entries[i].contains(pc) {
		return nil
	}
	return &t.entries[i]
}

// row is the unwind row at pc; ok is false if the program is not understood.
func (e *unwindEntry) row(pc uint64) (row unwindRow, ok bool) {
	if !row.run(e.common.program, e.common, e.start, pc) {
		return row, false
	}
	return row, row.run(e.program, e.common, e.start, pc)
}

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

// run executes a call frame program until the row for pc is complete. It
// follows the CFA and the return address and skips the other registers.
func (row *unwindRow) run(program []byte, c *unwindCommon, loc, pc uint64) bool {
	r := frameReader{b: program}
	var saved []unwindRow
	setRA := func(reg uint64, offset int64, known bool) {
		if reg == c.returnReg {
			row.ra, row.raKnown = offset, known
		}
	}
	for len(r.b) > 0 && !r.bad && loc <= pc {
		op := r.byte()
		switch operand := uint64(op & 0x3f); op & 0xc0 {
		case cfaAdvance:
			loc += operand * c.codeAlign
			continue
		case cfaOffset:
			setRA(operand, int64(r.uleb())*c.dataAlign, true)
			continue
		case cfaRestore:
			setRA(operand, 0, false) // no compiler restores the return address
			continue
		}
		switch op {
		case cfaNop:
		case cfaAdvance1:
			loc += uint64(r.byte()) * c.codeAlign
		case cfaAdvance2:
			loc += r.uint(2) * c.codeAlign
		case cfaAdvance4:
			loc += r.uint(4) * c.codeAlign
		case cfaOffsetExtended:
			reg := r.uleb()
			setRA(reg, int64(r.uleb())*c.dataAlign, true)
		case cfaOffsetExtendedSigned:
			reg := r.uleb()
			setRA(reg, r.sleb()*c.dataAlign, true)
		case cfaGNUNegativeOffsetExten:
			reg := r.uleb()
			setRA(reg, -int64(r.uleb())*c.dataAlign, true)
		case cfaRestoreExtended, cfaUndefined, cfaSameValue:
			setRA(r.uleb(), 0, false)
		case cfaRegister, cfaValOffset:
			setRA(r.uleb(), 0, false)
			r.uleb()
		case cfaValOffsetSigned:
			setRA(r.uleb(), 0, false)
			r.sleb()
		case cfaExpression, cfaValExpression:
			setRA(r.uleb(), 0, false)
			r.skip(r.uleb())
		case cfaDefCFA:
			row.cfaReg, row.cfaOffset, row.cfaKnown = r.uleb(), int64(r.uleb()), true
		case cfaDefCFASigned:
			row.cfaReg, row.cfaOffset, row.cfaKnown = r.uleb(), r.sleb()*c.dataAlign, true
		case cfaDefCFARegister:
			row.cfaReg = r.uleb()
		case cfaDefCFAOffset:
			row.cfaOffset = int64(r.uleb())
		case cfaDefCFAOffsetSigned:
			row.cfaOffset = r.sleb() * c.dataAlign
		case cfaDefCFAExpression:
			row.cfaKnown = false
			r.skip(r.uleb())
		case cfaRememberState:
			if len(saved) > 64 {
				return false
			}
			saved = append(saved, *row)
		case cfaRestoreState:
			if len(saved) == 0 {
				return false
			}
			*row, saved = saved[len(saved)-1], saved[:len(saved)-1]
		case cfaGNUArgsSize:
			r.uleb()
		default:
			return false
		}
	}
	row.until = loc
	return !r.bad
}

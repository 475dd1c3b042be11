package debuginfo

import (
	"encoding/binary"

	"endoscope/probes/dwarf/leb128"
)

// entryReader reads the entries of a unit one after the other. Unlike package dwarf's it
// allocates nothing, since a look-up passes most of them.
type entryReader struct {
	s      *sections
	u      *codeUnit
	shapes []*shape // by code
	r      leb128.Reader
}

// entry has the attributes of an entry that say which source code an address has.
type entry struct {
	at       int // offset in .debug_info
	tag      uint64
	children bool

	low, high           uint64
	hasLow, hasHigh     bool
	highIsLength        bool
	ranges              uint64
	hasRanges           bool
	indexed             bool // ranges is an index into the table of the unit
	origin              int  // offset of the entry that this one is an instance, or the definition, of; 0: none
	name, linkage       textRef
	callFile, callLine  uint64
	sibling             int // offset of the next entry on its level; 0: unknown
	lines               uint64
	hasLines            bool
	dir                 textRef
	dwoName             textRef
	dwoID               uint64
	gnuRanges           uint64
	addressBase         uint64
	rangeBase, textBase uint64
	lowIndex, highIndex bool // low and high are indexes into .debug_addr
}

// textRef is the value of an attribute that is a text.
type textRef struct{ form, value uint64 }

// Attributes and tags of DWARF 5, 7.5.
const (
	attrSibling     = 0x01
	attrName        = 0x03
	attrHigh        = 0x12
	attrOrigin      = 0x31
	attrEntryPC     = 0x52
	attrSpecified   = 0x47
	attrCallFile    = 0x58
	attrCallLine    = 0x59
	attrLinkage     = 0x6e
	attrTextBase    = 0x72
	attrRangeBase   = 0x74
	attrDwoName     = 0x76
	attrMIPSLinkage = 0x2007

	tagInlined     = 0x1d
	tagSubprogram  = 0x2e
	tagPartialUnit = 0x3c
	tagSkeleton    = 0x4a

	formBlock    = 0x09
	formData1    = 0x0b
	formData2    = 0x05
	formSdata    = 0x0d
	formUdata    = 0x0f
	formRefSup8  = 0x24
	formStrx2    = 0x26
	formPresent  = 0x19
	formExprloc  = 0x18
	maxShapeCode = 1 << 20
)

// dense returns the abbreviations by their code.
func (t shapes) dense() ([]*shape, error) {
	last := uint64(0)
	for code := range t {
		last = max(last, code)
	}
	if last > maxShapeCode || last > 64*uint64(len(t))+64 {
		return nil, errAbbrev
	}
	out := make([]*shape, last+1)
	for code, one := range t {
		out[code], one.length = one, 0
		for _, f := range one.fields {
			one.coded = one.coded || f.attr == attrLow || f.attr == attrRanges
			if n := lengthOfForm(f.form); n >= 0 && one.length >= 0 {
				one.length += n
			} else {
				one.length = -1
			}
		}
	}
	return out, nil
}

// lengthOfForm returns the length of a value in units of 4-byte offsets and 8-byte addresses; -1:
// it varies.
func lengthOfForm(form uint64) int {
	switch form {
	case formPresent, formImplicit:
		return 0
	case formData1, formRef1, formStrx1, formAddrx1, 0x0c: // flag
		return 1
	case formData2, formRef2, formStrx2, formAddrx1 + 1:
		return 2
	case formData4, formRef4, formStrp, formOffset, formLineStrp, formStrx4, formAddrx4, formRefAddr:
		return 4
	case formAddress, formData8, formRef8, formRefSig8:
		return 8
	}
	return -1
}

// next reads an entry. It reads the attributes only if wanted says so of the abbreviation. e.tag
// is 0 at the end of the children of an entry. It returns false at the end of the unit.
func (r *entryReader) next(e *entry, wanted func(*shape) bool) (bool, error) {
	if r.r.Pos() >= r.u.end {
		return false, nil
	}
	at := r.r.Pos()
	code := r.r.Uleb()
	if r.r.Failed() || code >= uint64(len(r.shapes)) {
		return false, errAbbrev
	}
	if code == 0 {
		e.at, e.tag = at, 0
		return true, nil
	}
	one := r.shapes[code]
	if one == nil {
		return false, errAbbrev
	}
	if !wanted(one) {
		e.at, e.tag, e.children, e.sibling, e.hasLow, e.hasRanges = at, one.tag, one.children, 0, false, false
		if one.length >= 0 && !r.u.wide && r.u.address == 8 && r.u.version > 2 {
			r.r.Skip(uint64(one.length))
			return !r.r.Failed(), nil
		}
		for i := range one.fields {
			f := &one.fields[i]
			if f.attr == attrSibling {
				n, _ := r.number(f)
				e.sibling = r.target(f.form, n)
			} else if !skipForm(&r.r, f.form, r.u.unit) {
				return false, errAbbrev
			}
		}
		return true, nil
	}
	*e = entry{at: at, tag: one.tag, children: one.children}
	for i := range one.fields {
		if !r.attribute(e, &one.fields[i]) {
			return false, errAbbrev
		}
	}
	r.resolve(e)
	return true, nil
}

// attribute reads an attribute; false: its form is not known, or is damaged.
func (r *entryReader) attribute(e *entry, f *field) bool {
	form := f.form
	switch f.attr {
	case attrLow, attrHigh, attrRanges, attrOrigin, attrSpecified, attrName, attrLinkage, attrMIPSLinkage, attrCallFile, attrCallLine, attrSibling,
		attrStmtList, attrDir, attrDwoName, attrAddressBase, attrRangeBase, attrTextBase, uint64(attrGNUDwoName), uint64(attrGNUDwoID), uint64(attrGNURangesBase), uint64(attrGNUAddrBase):
	default:
		return skipForm(&r.r, form, r.u.unit)
	}
	if form == formText {
		from := r.r.Pos()
		r.r.SkipString()
		r.text(e, f.attr, textRef{form, uint64(from)})
		return !r.r.Failed()
	}
	n, ok := r.number(f)
	if !ok {
		return skipForm(&r.r, form, r.u.unit)
	}
	switch f.attr {
	case attrLow:
		e.low, e.hasLow, e.lowIndex = n, true, isIndex(form)
	case attrHigh:
		e.high, e.hasHigh, e.highIndex = n, true, isIndex(form)
		e.highIsLength = form != formAddress && !e.highIndex
	case attrRanges:
		e.ranges, e.hasRanges, e.indexed = n, true, form == formRnglistx
	case attrOrigin, attrSpecified:
		e.origin = r.target(form, n)
	case attrCallFile:
		e.callFile = n
	case attrCallLine:
		e.callLine = n
	case attrSibling:
		e.sibling = r.target(form, n)
	case attrStmtList:
		e.lines, e.hasLines = n, true
	case attrAddressBase, uint64(attrGNUAddrBase):
		e.addressBase = n
	case attrRangeBase:
		e.rangeBase = n
	case attrTextBase:
		e.textBase = n
	case uint64(attrGNURangesBase):
		e.gnuRanges = n
	case uint64(attrGNUDwoID):
		e.dwoID = n
	default:
		r.text(e, f.attr, textRef{form, n})
	}
	return !r.r.Failed()
}

func (r *entryReader) text(e *entry, attr uint64, t textRef) {
	switch attr {
	case attrName:
		e.name = t
	case attrLinkage, attrMIPSLinkage:
		e.linkage = t
	case attrDir:
		e.dir = t
	case attrDwoName, uint64(attrGNUDwoName):
		e.dwoName = t
	}
}

// number reads the value of a form that is a number; false, and nothing read: it is none.
func (r *entryReader) number(f *field) (uint64, bool) {
	switch f.form {
	case formImplicit:
		return uint64(f.value), true
	case formUdata:
		return r.r.Uleb(), true
	case formSdata:
		return uint64(r.r.Sleb()), true
	case formData1:
		return r.r.Uint(1), true
	case formData2:
		return r.r.Uint(2), true
	case formData8:
		return r.r.Uint(8), true
	case formAddress:
		return r.r.Uint(r.u.address), true
	case formRefAddr:
		if r.u.version == 2 {
			return r.r.Uint(r.u.address), true
		}
	case formText, formBlock, formExprloc, formPresent, formRefAlt, formRefSup4, formRefSup8, formStrpAlt, formStrpSup, formRefSig8, formIndirect:
		return 0, false
	case formStrx, formGNUStrx, formAddrx, formGNUAddrx, formRefUdata, formLoclistx, formRnglistx, formStrx1, formAddrx1, formRef1, formStrx2, formAddrx1 + 1, formRef2,
		formStrx1 + 2, formAddrx1 + 2, formStrx4, formAddrx4, formRef4, formData4, formRef8, formStrp, formOffset, formLineStrp:
	default:
		return 0, false
	}
	return number(&r.r, f.form, r.u.unit), true
}

// isIndex reports whether a form is an index into .debug_addr.
func isIndex(form uint64) bool {
	return form == formAddrx || form == formGNUAddrx || form >= formAddrx1 && form <= formAddrx4
}

// target returns the offset of the entry that a reference leads to.
func (r *entryReader) target(form, n uint64) int {
	if form != formRefAddr {
		n += uint64(r.u.at)
	}
	if n >= uint64(len(r.s.info)) {
		return 0
	}
	return int(n)
}

// resolve makes addresses of indexes.
func (r *entryReader) resolve(e *entry) {
	base := r.u.addressBase
	if e.addressBase != 0 {
		base = e.addressBase
	}
	if e.lowIndex {
		e.low = r.s.address(base, e.low)
	}
	if e.highIndex {
		e.high = r.s.address(base, e.high)
	}
	if e.hasHigh && e.highIsLength {
		e.high += e.low
	}
}

// address returns address i of a table of .debug_addr, 0 if there is none.
func (s *sections) address(table, i uint64) uint64 {
	if table > uint64(len(s.addresses)) || i >= (uint64(len(s.addresses))-table)/8 {
		return 0
	}
	return binary.LittleEndian.Uint64(s.addresses[table+8*i:])
}

// textOf returns a text that an entry of u has.
func (s *sections) textOf(u *codeUnit, t textRef) []byte {
	switch t.form {
	case 0:
		return nil
	case formText:
		return textAt(s.info, t.value, maxNameBytes)
	case formStrp:
		return textAt(s.text, t.value, maxNameBytes)
	case formLineStrp:
		return textAt(s.lineText, t.value, maxNameBytes)
	}
	width := uint64(4)
	if u.wide {
		width = 8
	}
	if t.value > uint64(len(s.texts5)) || u.textBase > uint64(len(s.texts5)) {
		return nil
	}
	at := leb128.NewReaderAt(s.texts5, u.textBase+width*t.value)
	return textAt(s.text, at.Uint(int(width)), maxNameBytes)
}

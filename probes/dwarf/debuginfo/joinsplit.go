package debuginfo

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"endoscope/probes/dwarf/leb128"
)

// A split unit refers to texts, addresses and lists by indexes into tables of its file and of
// the program, and to types by signatures. A package has several of each table. Package dwarf
// does not know which table belongs to a unit. So the unit, and the type units that it refers
// to, are written again as whole units:
//
//   - An index becomes what it leads to: an offset into .debug_str.dwo, an address, or an offset
//     into the lists of the unit.
//   - A reference becomes an offset into the new .debug_info (DW_FORM_ref_addr). A type that is
//     only declared, with the signature of its definition, becomes a typedef of that, as in
//     joinTypes.
//   - The unit gets what its skeleton has: the addresses' base, and the lines.
//
// The entries are read twice: first to know where each will be, then to write them.

// Forms of DWARF 5, 7.5, and GNU's extensions.
const (
	formAddress     = 0x01
	formData4       = 0x06
	formData8       = 0x07
	formText        = 0x08
	formRef1        = 0x11
	formRef2        = 0x12
	formRef4        = 0x13
	formRefUdata    = 0x15
	formStrx        = 0x1a
	formAddrx       = 0x1b
	formLoclistx    = 0x22
	formRnglistx    = 0x23
	formStrx1       = 0x25
	formStrx4       = 0x28
	formAddrx1      = 0x29
	formAddrx4      = 0x2c
	formGNUAddrx    = 0x1f01
	formGNUStrx     = 0x1f02
	attrLow         = 0x11
	attrRanges      = 0x55
	attrAddressBase = 0x73
	attrDir         = 0x1b
	tagCompileUnit  = 0x11
	kindCompile     = 1
)

// joiner writes a split unit and the type units that it refers to as whole units.
type joiner struct {
	d        *Info
	skeleton *Skeleton
	file     *SplitFile

	units  []*joined
	types  map[uint64]*joined // by signature; nil: there is none
	tables map[uint64]*joinedTable

	abbrev, info []byte
	size         uint64 // of the new .debug_info
	entries      int    // with memory of moved
	work         int    // entries and attributes of it
	prefix       []byte // values of the attributes that a unit gets from its skeleton

	parts    map[partKey][]byte // that have been read
	reserved uint64             // bytes of memory, until the unit is written
}

// partKey is a part of a section.
type partKey struct {
	name       string
	from, size uint64
}

// reserve reserves memory until the unit is written.
func (j *joiner) reserve(n uint64) error {
	if j.reserved+n > maxDebugBytes {
		return fmt.Errorf("has more than %d MiB of debug information in one unit", maxDebugBytes>>20)
	}
	if !memory.reserve(n) {
		return errFull(n)
	}
	j.reserved += n
	return nil
}

// part is SplitFile.part. Units of one file share parts, which are read once.
func (j *joiner) part(name string, row contributions) ([]byte, error) {
	at := partKey{name, row[name].from, row[name].size}
	b, read := j.parts[at]
	if !read {
		var err error
		if b, err = j.file.part(name, row, j.reserve); err != nil {
			return nil, err
		}
		j.parts[at] = b
	}
	return b, nil
}

// joined is a unit, and where it goes.
type joined struct {
	*splitUnit
	table   *joinedTable
	to      uint64  // offset of its header
	end     uint64  // and of its end
	entries []moved // by from

	textHeader, listHeader, rangeHeader int
	wideTexts, wideLists, wideRanges    bool
}

// moved is an entry: its offset in the unit's section, and its new one.
type moved struct{ from, to uint32 }

// joinedTable is a table of abbreviations: its attributes, and the offset of its new form.
type joinedTable struct {
	shapes map[uint64]*joinedShape
	to     uint64
}

type joinedShape struct {
	unit   bool // the entry of a compilation unit
	fields []field
}

// maxJoined limits the entries of a unit and its types, with their attributes. An attribute may
// take no byte.
const maxJoined = 1 << 27

// movedStep is the number of entries for which memory is reserved at a time; each takes some 16
// bytes, as the list grows.
const movedStep = 1 << 14

func (j *joiner) join(u *splitUnit) (info, abbrev []byte, err error) {
	j.prefix = binary.LittleEndian.AppendUint64(nil, j.skeleton.low)
	j.prefix = binary.LittleEndian.AppendUint32(j.prefix, uint32(j.skeleton.addresses))
	j.prefix = append(append(j.prefix, j.skeleton.Dir...), 0)
	if j.skeleton.lines >= 0 {
		j.prefix = binary.LittleEndian.AppendUint32(j.prefix, uint32(j.skeleton.lines))
	}
	if err := j.add(u); err != nil {
		return nil, nil, err
	}
	for i := 0; i < len(j.units); i++ { // add adds to them
		if err := j.measure(j.units[i]); err != nil {
			return nil, nil, err
		}
	}
	if err := j.reserve(j.size); err != nil {
		return nil, nil, err
	}
	j.info = make([]byte, 0, j.size)
	for _, u := range j.units {
		if err := j.write(u); err != nil {
			return nil, nil, err
		}
	}
	return j.info, j.abbrev, nil
}

// add adds a unit to those that are written.
func (j *joiner) add(u *splitUnit) error {
	if u.address != 8 {
		return errors.New("has damaged debug information: addresses that have not eight bytes")
	}
	n := &joined{splitUnit: u}
	if u.version >= 5 {
		n.textHeader, n.wideTexts = headerOf(u.offsets, 4)
		n.listHeader, n.wideLists = headerOf(u.lists, 8)
		n.rangeHeader, n.wideRanges = headerOf(u.ranges, 8)
	}
	var err error
	if n.table = j.tables[u.table]; n.table == nil {
		if n.table, err = j.newTable(u); err != nil {
			return err
		}
		j.tables[u.table] = n.table
	}
	j.units = append(j.units, n)
	return nil
}

// newTable reads a table of abbreviations, and writes its new form.
func (j *joiner) newTable(u *splitUnit) (*joinedTable, error) {
	t := &joinedTable{shapes: map[uint64]*joinedShape{}, to: uint64(len(j.abbrev))}
	if u.unit.abbrev > uint64(len(u.abbrev)) {
		return nil, errAbbrev
	}
	out := j.abbrev
	put := func(ns ...uint64) {
		for _, n := range ns {
			out = leb128.AppendUleb(out, n)
		}
	}
	r := leb128.NewReaderAt(u.abbrev, u.unit.abbrev)
	for {
		code := r.Uleb()
		if code == 0 && !r.Failed() {
			break
		}
		tag, children := r.Uleb(), r.Byte()
		shape := &joinedShape{unit: tag == tagCompileUnit}
		var values []int64 // of DW_FORM_implicit_const
		for {
			f := field{attr: r.Uleb(), form: r.Uleb()}
			if r.Failed() || len(out) > maxAbbrev || len(shape.fields) > maxAbbrev {
				return nil, errAbbrev
			}
			if f.attr == 0 && f.form == 0 {
				break
			}
			n := int64(0)
			if f.form == formImplicit {
				n = r.Sleb()
			}
			if f.attr == attrSignature && f.form == formRefSig8 {
				tag, f.attr = tagTypedef, attrType
			}
			shape.fields, values = append(shape.fields, f), append(values, n)
		}
		put(code, tag)
		out = append(out, children)
		if shape.unit {
			put(attrLow, formAddress, attrAddressBase, formOffset, attrDir, formText)
			if j.skeleton.lines >= 0 {
				put(attrStmtList, formOffset)
			}
		}
		for i, f := range shape.fields {
			form, ok := newForm(f.form)
			if !ok {
				return nil, errAbbrev
			}
			if put(f.attr, form); form == formImplicit {
				out = leb128.AppendSleb(out, values[i])
			}
		}
		put(0, 0)
		if _, twice := t.shapes[code]; !twice {
			t.shapes[code] = shape
		}
	}
	j.abbrev = append(out, 0)
	return t, nil
}

// newForm returns the form in which a value is written; false if the form cannot be in a split
// unit.
func newForm(form uint64) (uint64, bool) {
	switch form {
	case formStrx, formGNUStrx, formStrx1, formStrx1 + 1, formStrx1 + 2, formStrx4, formStrp:
		return formStrp, true
	case formAddrx, formGNUAddrx, formAddrx1, formAddrx1 + 1, formAddrx1 + 2, formAddrx4:
		return formAddress, true
	case formRef1, formRef2, formRef4, formRef8, formRefUdata, formRefAddr, formRefSig8:
		return formRefAddr, true
	case formLoclistx, formRnglistx:
		return formOffset, true
	case formLineStrp: // it has no such section
		return formData4, true
	case formIndirect, formRefAlt, formStrpAlt, formStrpSup, formRefSup4, 0x24: // ref_sup8
		return 0, false
	}
	return form, true
}

// header returns the length of the header of a unit as it is written.
func (u *joined) header() uint64 {
	if u.version >= 5 {
		return 12
	}
	return 11
}

// measure finds where the entries of a unit go, and adds the type units that it refers to.
func (j *joiner) measure(u *joined) error {
	u.to = j.size
	j.size += u.header()
	r := leb128.NewReaderAt(u.data[:u.unit.end], uint64(u.unit.entries))
	for r.Pos() < u.unit.end {
		at := r.Pos()
		code := r.Uleb()
		if code == 0 && !r.Failed() {
			j.size++
			continue
		}
		if j.entries++; j.entries%movedStep == 1 {
			if err := j.reserve(16 * movedStep); err != nil {
				return err
			}
		}
		u.entries = append(u.entries, moved{uint32(at), uint32(j.size)})
		shape := u.table.shapes[code]
		if shape == nil || r.Failed() {
			return errAbbrev
		}
		if j.work += 1 + len(shape.fields); j.work > maxJoined || j.size > maxDebugBytes {
			return fmt.Errorf("has more than %d MiB of debug information in one unit", maxDebugBytes>>20)
		}
		j.size += lengthOf(code)
		if shape.unit {
			j.size += uint64(len(j.prefix))
		}
		for _, f := range shape.fields {
			from := r.Pos()
			if f.form == formRefSig8 {
				if err := j.refer(r.Uint(8)); err != nil {
					return err
				}
				if r.Failed() {
					return errAbbrev
				}
				j.size += 4
				continue
			}
			if !skipForm(&r, f.form, u.unit) {
				return errAbbrev
			}
			switch form, _ := newForm(f.form); form {
			case formStrp, formRefAddr, formOffset:
				j.size += 4
			case formAddress:
				j.size += 8
			case formData4:
				j.size += 4
			default:
				j.size += uint64(r.Pos() - from)
			}
		}
	}
	u.end = j.size
	return nil
}

// refer adds the unit of a type, if there is one.
func (j *joiner) refer(signature uint64) error {
	if _, known := j.types[signature]; known {
		return nil
	}
	j.types[signature] = nil
	found, err := j.file.find("tu", signature, j.part)
	if err != nil || found == nil {
		return err
	}
	if err := j.add(found); err != nil {
		return err
	}
	j.types[signature] = j.units[len(j.units)-1]
	return nil
}

func lengthOf(n uint64) uint64 {
	length := uint64(1)
	for ; n >= 0x80; n >>= 7 {
		length++
	}
	return length
}

// write writes a unit.
func (j *joiner) write(u *joined) error {
	word := func(n uint64) { j.info = binary.LittleEndian.AppendUint32(j.info, uint32(n)) }
	word(u.end - u.to - 4)
	j.info = binary.LittleEndian.AppendUint16(j.info, uint16(u.version))
	if u.version >= 5 {
		j.info = append(j.info, kindCompile, 8)
		word(u.table.to)
	} else {
		word(u.table.to)
		j.info = append(j.info, 8)
	}
	r := leb128.NewReaderAt(u.data[:u.unit.end], uint64(u.unit.entries))
	for r.Pos() < u.unit.end {
		code := r.Uleb()
		if j.info = leb128.AppendUleb(j.info, code); code == 0 {
			continue
		}
		shape := u.table.shapes[code]
		if shape.unit {
			j.info = append(j.info, j.prefix...)
		}
		for _, f := range shape.fields {
			from := r.Pos()
			switch form, _ := newForm(f.form); form {
			case formStrp:
				word(u.text(number(&r, f.form, u.unit), f.form))
			case formAddress:
				n := number(&r, f.form, u.unit)
				if f.form != formAddress {
					n = j.d.Address(int64(j.skeleton.addresses), n)
				}
				j.info = binary.LittleEndian.AppendUint64(j.info, n)
			case formRefAddr:
				word(j.target(u, number(&r, f.form, u.unit), f.form))
			case formOffset:
				n := number(&r, f.form, u.unit)
				switch {
				case f.form == formLoclistx:
					n = listAt(u.lists, u.listHeader, u.wideLists, n)
				case f.form == formRnglistx:
					n = listAt(u.ranges, u.rangeHeader, u.wideRanges, n)
				case f.attr == attrRanges && u.version < 5:
					n += j.skeleton.rangesBase
				}
				word(n)
			case formData4:
				word(number(&r, f.form, u.unit))
			default:
				skipForm(&r, f.form, u.unit)
				j.info = append(j.info, u.data[from:r.Pos()]...)
			}
		}
	}
	return nil
}

// number reads a value that is a number, of a form that newForm changes or keeps in 4 or 8
// bytes.
func number(r *leb128.Reader, form uint64, u unit) uint64 {
	switch form {
	case formStrx, formGNUStrx, formAddrx, formGNUAddrx, formRefUdata, formLoclistx, formRnglistx:
		return r.Uleb()
	case formStrx1, formAddrx1, formRef1:
		return r.Uint(1)
	case formStrx1 + 1, formAddrx1 + 1, formRef2:
		return r.Uint(2)
	case formStrx1 + 2, formAddrx1 + 2:
		return r.Uint(3)
	case formStrx4, formAddrx4, formRef4, formData4:
		return r.Uint(4)
	case formAddress, formRef8, formRefSig8:
		return r.Uint(8)
	}
	return offset(r, u.wide) // strp, ref_addr, sec_offset, line_strp
}

// text returns the offset of a text in .debug_str.dwo.
func (u *joined) text(n, form uint64) uint64 {
	if form == formStrp {
		return n
	}
	if at, ok := entryOf(u.offsets, u.textHeader, u.wideTexts || u.version < 5 && u.wide, n); ok {
		return at
	}
	return nowhere
}

// listAt returns the offset of list i of a table.
func listAt(b []byte, header int, wide bool, i uint64) uint64 {
	if at, ok := entryOf(b, header, wide, i); ok {
		return uint64(header) + at
	}
	return nowhere
}

// target returns the new offset of an entry that u refers to.
func (j *joiner) target(u *joined, n, form uint64) uint64 {
	switch form {
	case formRefSig8:
		if t := j.types[n]; t != nil {
			return t.moved(uint64(t.unit.at) + t.typeAt)
		}
		return nowhere
	case formRefAddr:
		return u.moved(n)
	}
	return u.moved(uint64(u.unit.at) + n)
}

// moved returns the new offset of an entry of the unit; nowhere if it is none.
func (u *joined) moved(from uint64) uint64 {
	i, found := slices.BinarySearchFunc(u.entries, from, func(m moved, at uint64) int { return cmp.Compare(uint64(m.from), at) })
	if !found {
		return nowhere
	}
	return uint64(u.entries[i].to)
}

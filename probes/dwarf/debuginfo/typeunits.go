package debuginfo

import (
	"encoding/binary"
	"errors"
	"slices"

	"endoscope/probes/dwarf/leb128"
)

// Compilers can put each type into a unit of its own, of which the linker keeps
// one copy (-fdebug-types-section): in .debug_types in DWARF 4, in .debug_info
// in DWARF 5. References to such a type are 8-byte signatures, which package
// dwarf supports in some places only. So the sections are rewritten to
// equivalent ones with offsets first:
//
//   - Units of .debug_types become units of .debug_info. The additional fields of their
//     header are overwritten with zeroes, which are empty entries, so that no offset
//     changes.
//   - Signatures (DW_FORM_ref_sig8) become offsets of 8 bytes (DW_FORM_ref8).
//   - A type that is only declared, with the signature of its definition, becomes a
//     typedef of that (DW_TAG_typedef).

// Attributes, forms and tags of DWARF 5, 7.5.
const (
	attrType        = 0x49
	attrSignature   = 0x69
	tagTypedef      = 0x16
	formRef8        = 0x14
	formRefSig8     = 0x20
	formImplicit    = 0x21
	formIndirect    = 0x16
	maxAbbrev       = 1 << 22 // bytes of a table
	nowhere         = 0xffffffff
	maxAbbrevTables = 1 << 20
)

var errAbbrev = errors.New("has damaged debug information: entries without a known form")

// abbrevTable maps the abbreviation codes of a unit to attributes.
type abbrevTable struct {
	forms  map[uint64][]uint64
	refers bool // some have signatures
	edits  []edit
}

// edit changes a byte of a section.
type edit struct {
	at int
	to byte
}

// joinTypes returns abbrev and info, rewritten as described above. Without type
// units both are unchanged.
func joinTypes(abbrev, info, types []byte) (newAbbrev, newInfo []byte, err error) {
	units, err := unitsOf(info, false)
	if err != nil {
		return abbrev, info, nil // package dwarf reports the error
	}
	own, err := unitsOf(types, true)
	if err != nil {
		return nil, nil, err
	}
	for _, u := range own {
		u.at, u.entries, u.end = u.at+len(info), u.entries+len(info), u.end+len(info)
		units = append(units, u)
	}
	signatures := map[uint64]uint64{}
	for _, u := range units {
		if u.isType {
			signatures[u.signature] = uint64(u.at) + u.typeAt
		}
	}
	if len(signatures) == 0 {
		return abbrev, info, nil
	}
	newAbbrev, newInfo = slices.Clone(abbrev), slices.Concat(info, types)
	for _, u := range units[len(units)-len(own):] {
		more := 12
		if u.wide {
			more = 16
		}
		clear(newInfo[u.entries-more : u.entries])
	}
	tables := map[uint64]*abbrevTable{}
	for _, u := range units {
		t := tables[u.abbrev]
		if t == nil {
			if len(tables) == maxAbbrevTables {
				return nil, nil, errAbbrev
			}
			if t, err = readAbbrev(abbrev, u.abbrev); err != nil {
				return nil, nil, err
			}
			tables[u.abbrev] = t
			for _, e := range t.edits {
				newAbbrev[e.at] = e.to
			}
		}
		if t.refers {
			if err := t.resolve(newInfo, u, signatures); err != nil {
				return nil, nil, err
			}
		}
	}
	return newAbbrev, newInfo, nil
}

// readAbbrev reads the table of abbreviations at an offset.
func readAbbrev(abbrev []byte, at uint64) (*abbrevTable, error) {
	t := &abbrevTable{forms: map[uint64][]uint64{}}
	if at > uint64(len(abbrev)) {
		return nil, errAbbrev
	}
	r := leb128.NewReaderAt(abbrev, at)
	for {
		code := r.Uleb()
		if code == 0 && !r.Failed() {
			return t, nil
		}
		tag := r.Pos()
		r.Uleb()
		tagBytes := r.Pos() - tag
		r.Skip(1) // flag: it has children
		var forms []uint64
		for {
			attr := r.Pos()
			name := r.Uleb()
			formAt := r.Pos()
			form := r.Uleb()
			if r.Failed() || len(t.forms) > maxAbbrev {
				return nil, errAbbrev
			}
			if name == 0 && form == 0 {
				break
			}
			if form == formImplicit {
				r.Uleb()
			}
			if form == formRefSig8 && abbrev[formAt] == formRefSig8 {
				t.refers = true
				t.edits = append(t.edits, edit{formAt, formRef8})
				if name == attrSignature && abbrev[attr] == attrSignature && tagBytes == 1 {
					t.edits = append(t.edits, edit{attr, attrType}, edit{tag, tagTypedef})
				}
			}
			forms = append(forms, form)
		}
		if _, twice := t.forms[code]; !twice {
			t.forms[code] = forms
		}
	}
}

// resolve replaces the signatures in a unit's entries by offsets.
func (t *abbrevTable) resolve(info []byte, u unit, signatures map[uint64]uint64) error {
	r := leb128.NewReaderAt(info[:u.end], uint64(u.entries))
	for r.Pos() < u.end {
		code := r.Uleb()
		if code == 0 && !r.Failed() {
			continue
		}
		forms, ok := t.forms[code]
		if !ok || r.Failed() {
			return errAbbrev
		}
		for _, form := range forms {
			if form == formRefSig8 {
				at := r.Pos()
				target, known := signatures[r.Uint(8)]
				if r.Failed() {
					return errAbbrev
				}
				if !known {
					target = nowhere
				}
				binary.LittleEndian.PutUint64(info[at:], target-uint64(u.at))
				continue
			}
			if !skipForm(&r, form, u) {
				return errAbbrev
			}
		}
	}
	return nil
}

// skipForm skips a value of a form; false if the form is unknown, or the value
// exceeds the section.
func skipForm(r *leb128.Reader, form uint64, u unit) bool {
	if form == formIndirect {
		if form = r.Uleb(); form == formIndirect || form == formRefSig8 || form == formImplicit {
			return false
		}
	}
	word := uint64(4)
	if u.wide {
		word = 8
	}
	switch form {
	case 0x01: // addr
		r.Skip(uint64(u.address))
	case 0x03: // block2
		r.Skip(r.Uint(2))
	case 0x04: // block4
		r.Skip(r.Uint(4))
	case 0x05, 0x12, 0x26, 0x2a: // data2, ref2, strx2, addrx2
		r.Skip(2)
	case 0x06, 0x13, 0x1c, 0x28, 0x2c: // data4, ref4, ref_sup4, strx4, addrx4
		r.Skip(4)
	case 0x07, 0x14, formRefSig8, 0x24: // data8, ref8, ref_sig8, ref_sup8
		r.Skip(8)
	case 0x08: // string
		r.SkipString()
	case 0x09, 0x18: // block, exprloc
		r.Skip(r.Uleb())
	case 0x0a: // block1
		r.Skip(r.Uint(1))
	case 0x0b, 0x0c, 0x11, 0x25, 0x29: // data1, flag, ref1, strx1, addrx1
		r.Skip(1)
	case 0x0d, 0x0f, 0x15, 0x1a, 0x1b, 0x22, 0x23, 0x1f01, 0x1f02: // numbers of any length
		r.Uleb()
	case 0x10: // ref_addr
		if u.version == 2 {
			word = uint64(u.address)
		}
		r.Skip(word)
	case 0x0e, 0x17, 0x1d, 0x1f, 0x1f20, 0x1f21: // strp, sec_offset, strp_sup, line_strp, GNU's
		r.Skip(word)
	case 0x19, formImplicit: // flag_present
	case 0x1e: // data16
		r.Skip(16)
	case 0x27, 0x2b: // strx3, addrx3
		r.Skip(3)
	default:
		return false
	}
	return !r.Failed()
}

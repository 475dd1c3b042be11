package debuginfo

import (
	"encoding/binary"
	"errors"
	"slices"

	"endoscope/probes/dwarf/leb128"
)

// A tool (dwz -m) moves the common debug information of several programs to a
// supplementary file, to which each refers with special forms (GNU's in DWARF 2
// to 4; DWARF 5, 7.3.6). Package dwarf does not support these. So the sections
// of both files are joined, the supplementary ones last, and all affected
// offsets are adjusted:
//
//   - References into the supplementary file (DW_FORM_GNU_ref_alt, DW_FORM_ref_sup4,
//     DW_FORM_GNU_strp_alt, DW_FORM_strp_sup) become those within one file
//     (DW_FORM_ref_addr, DW_FORM_strp), with the length of the own section added.
//   - In the supplementary file's units the offsets of abbreviations, texts, lines and of
//     other units are increased by these lengths.

// Attributes and forms of DWARF 5, 7.5, and GNU's extensions.
const (
	attrStmtList = 0x10
	formStrp     = 0x0e
	formRefAddr  = 0x10
	formOffset   = 0x17
	formRefSup4  = 0x1c
	formStrpSup  = 0x1d
	formLineStrp = 0x1f
	formRefAlt   = 0x1f20
	formStrpAlt  = 0x1f21
)

var errSupplement = errors.New("has damaged debug information: references to another file that cannot be followed")

// field is an attribute in an abbreviation.
type field struct {
	attr, form     uint64
	formAt, formTo int   // range of the form in .debug_abbrev
	value          int64 // of DW_FORM_implicit_const
}

// shape is an abbreviation.
type shape struct {
	tag      uint64
	children bool
	fields   []field
	coded    bool // entries can have code
	length   int  // of the attributes in units of 4-byte offsets and 8-byte addresses; -1: it varies
}

// shapes maps the codes of a table of .debug_abbrev to abbreviations.
type shapes map[uint64]*shape

func shapesAt(abbrev []byte, at uint64) (shapes, error) { return shapesUntil(abbrev, at, 0) }

// shapesUntil is shapesAt, but ends after the abbreviation with the code last.
func shapesUntil(abbrev []byte, at, last uint64) (shapes, error) {
	if at > uint64(len(abbrev)) {
		return nil, errAbbrev
	}
	out := shapes{}
	r := leb128.NewReaderAt(abbrev, at)
	for {
		code := r.Uleb()
		if code == 0 && !r.Failed() {
			return out, nil
		}
		one := &shape{tag: r.Uleb(), children: r.Byte() != 0}
		for {
			f := field{attr: r.Uleb(), formAt: r.Pos()}
			f.form, f.formTo = r.Uleb(), r.Pos()
			if r.Failed() || len(out) > maxAbbrev {
				return nil, errAbbrev
			}
			if f.attr == 0 && f.form == 0 {
				break
			}
			if f.form == formImplicit {
				f.value = r.Sleb()
			}
			one.fields = append(one.fields, f)
		}
		if _, twice := out[code]; !twice {
			out[code] = one
		}
		if code == last {
			return out, nil
		}
	}
}

// shifter adds to offsets in the entries of units. by returns how much is added
// to a value, and its new form.
type shifter struct {
	abbrev, edited []byte // edited is the new abbrev
	tables         map[uint64]shapes
	by             func(f field) (add, form uint64)
}

// run adjusts the units of a section in place.
func (s *shifter) run(section []byte, types bool) error {
	units, err := unitsOf(section, types)
	if err != nil {
		return err
	}
	for _, u := range units {
		if s.tables[u.abbrev] == nil {
			if len(s.tables) == maxAbbrevTables {
				return errAbbrev
			}
			if s.tables[u.abbrev], err = shapesAt(s.abbrev, u.abbrev); err != nil {
				return err
			}
			for _, one := range s.tables[u.abbrev] {
				for _, f := range one.fields {
					if _, form := s.by(f); form != f.form && !leb128.PutUleb(s.edited[f.formAt:f.formTo], form) {
						return errAbbrev
					}
				}
			}
		}
		if err := s.unit(section, u); err != nil {
			return err
		}
	}
	return nil
}

func (s *shifter) unit(section []byte, u unit) error {
	r := leb128.NewReaderAt(section[:u.end], uint64(u.entries))
	for r.Pos() < u.end {
		code := r.Uleb()
		if code == 0 && !r.Failed() {
			continue
		}
		one, ok := s.tables[u.abbrev][code]
		if !ok || r.Failed() {
			return errAbbrev
		}
		for _, f := range one.fields {
			at := r.Pos()
			if !skipForm(&r, f.form, u) {
				return errAbbrev
			}
			add, form := s.by(f)
			if add == 0 && form == f.form {
				continue
			}
			// All of these have the size of an offset.
			if form == formRefAddr && u.version == 2 || f.form == formRefSup4 && u.wide || !shift(section[at:r.Pos()], add) {
				return errSupplement
			}
		}
	}
	return nil
}

// shift adds to an offset of 4 or 8 bytes; false if b is none, or the sum is
// too large.
func shift(b []byte, add uint64) bool {
	switch len(b) {
	case 4:
		n := uint64(binary.LittleEndian.Uint32(b)) + add
		binary.LittleEndian.PutUint32(b, uint32(n))
		return n < 1<<32
	case 8:
		n := binary.LittleEndian.Uint64(b)
		binary.LittleEndian.PutUint64(b, n+add)
		return n+add >= n
	}
	return false
}

// join joins the sections of a file with those of its supplementary file.
func join(own, more map[string][]byte) (map[string][]byte, error) {
	out := map[string][]byte{}
	for name, b := range own {
		out[name] = b
	}
	size := func(name string) uint64 { return uint64(len(own[name])) }

	info, types := slices.Clone(own["info"]), slices.Clone(own["types"])
	refers := shifter{abbrev: own["abbrev"], edited: slices.Clone(own["abbrev"]), tables: map[uint64]shapes{}, by: func(f field) (uint64, uint64) {
		switch f.form {
		case formRefAlt, formRefSup4:
			return size("info"), formRefAddr
		case formStrpAlt, formStrpSup:
			return size("str"), formStrp
		}
		return 0, f.form
	}}
	if err := errors.Join(refers.run(info, false), refers.run(types, true)); err != nil {
		return nil, err
	}

	moved := slices.Clone(more["info"])
	moves := shifter{abbrev: more["abbrev"], edited: more["abbrev"], tables: map[uint64]shapes{}, by: func(f field) (uint64, uint64) {
		switch {
		case f.form == formStrp:
			return size("str"), f.form
		case f.form == formLineStrp:
			return size("line_str"), f.form
		case f.form == formRefAddr:
			return size("info"), f.form
		case f.form == formOffset && f.attr == attrStmtList:
			return size("line"), f.form
		}
		return 0, f.form
	}}
	if err := moves.run(moved, false); err != nil {
		return nil, err
	}
	units, _ := unitsOf(moved, false)
	for _, u := range units {
		at, width := u.at+6, 4 // after the length and the version
		if u.wide {
			at, width = u.at+14, 8
		}
		if u.version >= 5 {
			at += 2
		}
		if !shift(moved[at:at+width], size("abbrev")) {
			return nil, errSupplement
		}
	}
	out["info"], out["types"] = slices.Concat(info, moved), types
	out["abbrev"] = slices.Concat(refers.edited, more["abbrev"])
	for _, name := range []string{"str", "line_str", "line"} {
		if len(more[name]) > 0 {
			out[name] = slices.Concat(own[name], more[name])
		}
	}
	return out, nil
}

package golang

import (
	"bytes"
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"

	"endoscope/probes/dwarf/debuginfo"
)

// maxUnit limits the debug information of one package; the runtime's has 2 MB.
const maxUnit = 64 << 20

// NumberOffset returns the offset in g of a goroutine's number (goid), from the
// debug information of a program. It reads only up to the runtime's part:
// decompressing all of a large program's takes a second.
func NumberOffset(file io.ReaderAt) (offset uint64, err error) {
	defer func() { // debug/elf and debug/dwarf may panic on damaged files
		if p := recover(); p != nil {
			offset, err = 0, fmt.Errorf("damaged debug information: %v", p)
		}
	}()
	f, err := elf.NewFile(file)
	if err != nil {
		return 0, err
	}
	small := map[string][]byte{}
	for _, name := range []string{".debug_abbrev", ".debug_str", ".debug_addr"} {
		if s := f.Section(name); s != nil && s.Size <= maxUnit {
			if small[name], err = s.Data(); err != nil {
				return 0, ErrNoDebugInformation
			}
		}
	}
	section := f.Section(".debug_info")
	if section == nil || small[".debug_abbrev"] == nil {
		return 0, ErrNoDebugInformation
	}
	info := section.Open()
	var unit bytes.Buffer
	for read := uint64(0); read < maxInfo; read += uint64(unit.Len()) {
		if nextUnit(info, &unit) != nil {
			return 0, ErrNoDebugInformation
		}
		data, err := dwarf.New(small[".debug_abbrev"], nil, nil, unit.Bytes(), nil, nil, nil, small[".debug_str"])
		if err != nil {
			return 0, err
		}
		if small[".debug_addr"] != nil {
			if err := data.AddSection(".debug_addr", small[".debug_addr"]); err != nil {
				return 0, err
			}
		}
		if offset, found := memberOfG(data.Reader(), "goid"); found {
			return offset, nil
		}
	}
	return 0, ErrNoDebugInformation
}

// nextUnit reads a unit with its header into unit, replacing what it holds. A length that
// the section does not have takes no memory.
func nextUnit(info io.Reader, unit *bytes.Buffer) error {
	var length [4]byte
	if _, err := io.ReadFull(info, length[:]); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint32(length[:])
	if n > maxUnit { // or the 64-bit format, which Go does not write
		return ErrNoDebugInformation
	}
	unit.Reset()
	unit.Write(length[:])
	_, err := io.CopyN(unit, info, int64(n))
	return err
}

// memberOfG searches for a member of type g in a unit, if that is the
// runtime's.
func memberOfG(r *dwarf.Reader, member string) (offset uint64, found bool) {
	inG := false
	for {
		e, err := r.Next()
		if err != nil || e == nil {
			return 0, false
		}
		name, _ := e.Val(dwarf.AttrName).(string)
		switch {
		case e.Tag == dwarf.TagCompileUnit:
			if name != "runtime" {
				return 0, false
			}
			continue // into its children
		case inG && e.Tag == 0:
			return 0, false
		case inG && name == member:
			at, ok := e.Val(dwarf.AttrDataMemberLoc).(int64)
			return uint64(at), ok
		case e.Tag == dwarf.TagStructType && name == "runtime.g":
			inG = true
			continue
		}
		if e.Children {
			debuginfo.SkipChildren(r, e)
		}
	}
}

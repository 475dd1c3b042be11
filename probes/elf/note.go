package elf

import (
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
)

// noteHeadBytes is the size of a note's header, which precedes the owner's
// name.
const noteHeadBytes = 12

// EachNote calls f with the descriptions of the notes of an owner and kind until it
// returns false.
func EachNote(notes []byte, owner string, kind uint32, f func(desc []byte) bool) {
	le := binary.LittleEndian
	for len(notes) >= noteHeadBytes {
		name, desc := uint64(le.Uint32(notes)), uint64(le.Uint32(notes[4:]))
		descAt := noteHeadBytes + (name+3)&^3
		if descAt+desc > uint64(len(notes)) {
			return
		}
		if le.Uint32(notes[8:]) == kind && string(notes[noteHeadBytes:noteHeadBytes+name]) == owner {
			if !f(notes[descAt : descAt+desc]) {
				return
			}
		}
		notes = notes[min(descAt+(desc+3)&^3, uint64(len(notes))):]
	}
}

// readBuildID finds the GNU build-id note in the sections or, where they are
// stripped, in the segments.
func (im *Image) readBuildID() string {
	for _, s := range im.ELF.Sections {
		if s.Type == elf.SHT_NOTE && s.FileSize < 1<<16 {
			if b, err := im.ReadSection(s); err == nil {
				if id := buildIDOf(b); id != "" {
					return id
				}
			}
		}
	}
	for _, p := range im.ELF.Progs {
		if p.Type == elf.PT_NOTE && p.Filesz < 1<<16 {
			b := make([]byte, p.Filesz)
			if _, err := im.Reader.ReadAt(b, int64(p.Off)); err == nil {
				if id := buildIDOf(b); id != "" {
					return id
				}
			}
		}
	}
	return ""
}

// buildIDOf returns the hex of the NT_GNU_BUILD_ID note among notes.
func buildIDOf(notes []byte) (id string) {
	const ntGNUBuildID = 3
	EachNote(notes, "GNU\x00", ntGNUBuildID, func(desc []byte) bool {
		if len(desc) > 64 {
			return true
		}
		id = hex.EncodeToString(desc)
		return false
	})
	return id
}

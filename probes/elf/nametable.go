package elf

import (
	"debug/elf"
	"io"
)

// nameTable is a string table in a file. Names are read on request: those of a
// large program take more memory than everything else that is kept of it.
type nameTable struct {
	r      io.ReaderAt
	offset int64
	size   int64
}

// nameRef locates a name, without the version that may follow it.
type nameRef struct {
	at    uint32 // in its table
	len   uint16 // at most maxName
	table uint8  // index of contents.tables
}

// addTable adds sec, a string table of im from byte skip on, to the module's
// tables, and returns its index.
func (c *contents) addTable(im *Image, sec *elf.Section, skip, size uint64) uint8 {
	c.tables = append(c.tables, nameTable{im.Reader, int64(sec.Offset + skip), int64(size)})
	return uint8(len(c.tables) - 1)
}

// texts are string tables read as a whole, for callers that need all names; nil
// where a table could not be read.
type texts [][]byte

func (c *contents) readTables() texts {
	all := make(texts, len(c.tables))
	for i, t := range c.tables {
		b := make([]byte, t.size)
		if _, err := t.r.ReadAt(b, t.offset); err == nil {
			all[i] = b
		}
	}
	return all
}

// text returns the name that ref refers to, as a string of its own; "" if the
// file was truncated after it was opened. read may be nil.
func (c *contents) text(ref nameRef, read texts) string {
	if read != nil && read[ref.table] != nil {
		return string(read[ref.table][ref.at:][:ref.len])
	}
	t := c.tables[ref.table]
	b := make([]byte, ref.len)
	if _, err := t.r.ReadAt(b, t.offset+int64(ref.at)); err != nil {
		return ""
	}
	return string(b)
}

package debuginfo

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"endoscope/probes/testenv"
)

// elfWith writes an ELF file that has only the given sections.
func elfWith(t *testing.T, secs map[string][]byte) (*elf.File, *os.File) {
	t.Helper()
	le := binary.LittleEndian
	var strs, body bytes.Buffer // of section names, and contents
	strs.WriteByte(0)
	type sh struct{ name, off, size int }
	var list []sh
	for n, b := range secs {
		s := sh{strs.Len(), 64 + body.Len(), len(b)}
		strs.WriteString(".debug_" + n + "\x00")
		body.Write(b)
		list = append(list, s)
	}
	nm := strs.Len()
	strs.WriteString(".shstrtab\x00")
	list = append(list, sh{nm, 64 + body.Len(), strs.Len()})
	body.Write(strs.Bytes())
	for body.Len()%8 != 0 {
		body.WriteByte(0)
	}
	head := make([]byte, 64)
	copy(head, "\x7fELF\x02\x01\x01")
	le.PutUint16(head[16:], 2)
	le.PutUint16(head[18:], 62)
	le.PutUint32(head[20:], 1)
	le.PutUint64(head[40:], uint64(64+body.Len()))
	le.PutUint16(head[52:], 64)
	le.PutUint16(head[58:], 64)
	le.PutUint16(head[60:], uint16(len(list)+1))
	le.PutUint16(head[62:], uint16(len(list)))
	out := append(head, body.Bytes()...)
	out = append(out, make([]byte, 64)...)
	for i, s := range list {
		h := make([]byte, 64)
		le.PutUint32(h, uint32(s.name))
		le.PutUint32(h[4:], 1)
		if i == len(list)-1 {
			le.PutUint32(h[4:], 3)
		}
		le.PutUint64(h[24:], uint64(s.off))
		le.PutUint64(h[32:], uint64(s.size))
		out = append(out, h...)
	}
	path := filepath.Join(t.TempDir(), "crafted")
	if err := os.WriteFile(path, out, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	f, err := elf.NewFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return f, file
}

// unitV4 is a unit of DWARF 4 that has only DW_AT_stmt_list, and a low and a high address.
func unitV4(lines uint32, low uint64) []byte {
	le := binary.LittleEndian
	b := []byte{4, 0, 0, 0, 0, 0, 8, 1}
	b = le.AppendUint32(b, lines)
	b = le.AppendUint64(b, low)
	b = le.AppendUint32(b, 16)
	return append(le.AppendUint32(nil, uint32(len(b))), b...)
}

var abbrevV4 = []byte{1, 0x11, 0, 0x10, 0x17, 0x11, 0x01, 0x12, 0x06, 0, 0, 0}

// Many names of files in one long text do not take the product of both.
func TestLongNames(t *testing.T) {
	const n = 1 << 18
	le := binary.LittleEndian
	rest := []byte{1, 1, 1, 0xff, 1, 1, 0, 0, 1, 1, 0x1f, 0x80, 0x80, 0x10} // no directories; n names of form line_strp
	rest = append(rest, make([]byte, 4*n)...)
	line := le.AppendUint32([]byte{5, 0, 8, 0}, uint32(len(rest)))
	line = append(line, rest...)
	line = append(le.AppendUint32(nil, uint32(len(line))), line...)
	f, file := elfWith(t, map[string][]byte{"info": unitV4(0, 0x1000), "abbrev": abbrevV4, "line": line, "line_str": append(bytes.Repeat([]byte{'a'}, 64*n), 0)})
	s, err := OpenSource(f, file, nil, MaxUnpacked, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Line(0x1000)
	if p := s.units[0].program; p == nil || len(p.files) != n || p.path(1) != "" {
		t.Errorf("%v", p)
	}
}

// Line programs that overlap are refused.
func TestOverlappingPrograms(t *testing.T) {
	le := binary.LittleEndian
	var info, line []byte
	const n, size, tail = 1000, 115, 100_000
	for i := range n {
		info = append(info, unitV4(uint32(i*size), uint64(0x1000+16*i))...)
		b := le.AppendUint32(nil, uint32((n-i)*size-4+tail))
		b = append(b, 4, 0, 15, 0, 0, 0, 1, 1, 1, 0, 1, 1, 0)
		b = append(b, "a.c\x00\x00\x00\x00\x00"...)
		line = append(line, append(b, bytes.Repeat([]byte{9}, size-len(b))...)...)
	}
	line = append(line, bytes.Repeat([]byte{9}, tail)...)
	f, file := elfWith(t, map[string][]byte{"info": info, "abbrev": abbrevV4, "line": line})
	s, err := OpenSource(f, file, nil, MaxUnpacked, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := s.Addresses("a.c", 20); !errors.Is(err, errLines) {
		t.Error(err)
	}
}

// Units whose first entries have the last abbreviation of a large table do not take the product
// of both.
func TestUnitsWithManyAbbreviations(t *testing.T) {
	testenv.Long(t)
	const n = 1 << 13
	var abbrev, info []byte
	for i := 1; i < 2*n; i++ {
		abbrev = append(abbrev, byte(i)|0x80, byte(i>>7), 0x11, 0, 0, 0)
		info = append(info, 9, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8, 0xff, 0x7f)
	}
	f, file := elfWith(t, map[string][]byte{"info": info, "abbrev": append(abbrev, 0)})
	if _, err := OpenSource(f, file, nil, MaxUnpacked, nil); !errors.Is(err, errFar) {
		t.Error(err)
	}
}

package debuginfo

import (
	"bytes"
	"debug/dwarf"
	"errors"
	"path"

	"endoscope/probes/dwarf/leb128"
)

// A unit's line program (DWARF 5, 6.2; versions 2 to 5) is run here and not by package dwarf,
// which joins the name and the directory of every file of a header: a small file can make that
// take any amount of memory.

var errLines = errors.New("has a damaged line table")

// lineFile is a file in the header of a line program.
type lineFile struct {
	dir  uint64
	name []byte
}

// lineProgram is a line program with its header.
type lineProgram struct {
	version     int
	unitDir     []byte // to which directory 0 of version 2 to 4, and relative ones, are relative
	dirs        [][]byte
	files       []lineFile
	minLength   uint64
	lineBase    int64
	lineRange   uint64
	opcodeBase  byte
	lengths     []byte // of the standard opcodes, in operands
	defaultStmt bool
	code        leb128.Reader
	size        int // in bytes, with its header
}

// lineRow is a row of a line table.
type lineRow struct {
	addr uint64
	file uint32
	line uint32
	stmt bool // it begins a statement
	end  bool // it is the end of a sequence: the first address after it
}

// linesAt reads the header of the line program at an offset of .debug_line. With an error, the
// program has only its size, or is nil.
func (s *sections) linesAt(at uint64, unitDir []byte) (*lineProgram, error) {
	r := leb128.NewReaderAt(s.line, at)
	length, wide := r.Uint(4), false
	if length == 0xffffffff {
		length, wide = r.Uint(8), true
	}
	if r.Failed() || length > uint64(r.Len()) {
		return nil, errLines
	}
	end := r.Pos() + int(length)
	r = leb128.NewReader(s.line[:end])
	r.Skip(at + 4)
	if wide {
		r.Skip(8)
	}
	p := &lineProgram{version: int(r.Uint(2)), unitDir: unitDir, size: end - int(at)}
	if p.version < 2 || p.version > 5 {
		return nil, errLines
	}
	if p.version >= 5 {
		r.Skip(2) // sizes of an address and of a segment selector
	}
	header := offset(&r, wide)
	program := uint64(r.Pos()) + header
	p.minLength = r.Uint(1)
	if p.version >= 4 {
		r.Skip(1) // operations per instruction: one
	}
	p.defaultStmt = r.Byte() != 0
	p.lineBase, p.lineRange, p.opcodeBase = r.Int(1), r.Uint(1), r.Byte()
	if p.opcodeBase == 0 {
		return nil, errLines
	}
	p.lengths = r.Bytes(uint64(p.opcodeBase) - 1)
	var err error
	if p.version >= 5 {
		err = p.tables5(&r, s, wide)
	} else {
		p.tables(&r)
	}
	if err != nil || r.Failed() || p.lineRange == 0 || header > uint64(len(s.line)) {
		return p, errLines
	}
	p.code = r
	p.code.Jump(int64(program) - int64(r.Pos()))
	return p, nil
}

// tables reads the directories and files of versions 2 to 4, in which both count from 1.
func (p *lineProgram) tables(r *leb128.Reader) {
	p.dirs = append(p.dirs, nil)
	for dir := text(r); len(dir) > 0; dir = text(r) {
		p.dirs = append(p.dirs, dir)
	}
	p.files = append(p.files, lineFile{})
	for name := text(r); len(name) > 0; name = text(r) {
		p.files = append(p.files, lineFile{r.Uleb(), name})
		r.Uleb() // time
		r.Uleb() // size
	}
}

// text reads a text that a zero byte ends.
func text(r *leb128.Reader) []byte {
	n := bytes.IndexByte(r.Rest(), 0)
	if n < 0 {
		r.Fail()
		return nil
	}
	b := r.Bytes(uint64(n))
	r.Skip(1)
	return b
}

// textAt returns the text at an offset of a section, of which at most most bytes: many references
// can lead to one long text.
func textAt(section []byte, at uint64, most int) []byte {
	if at >= uint64(len(section)) {
		return nil
	}
	section = section[at:]
	b := section[:min(len(section), most)]
	if n := bytes.IndexByte(b, 0); n >= 0 {
		return b[:n]
	}
	if len(b) == len(section) { // the section ends before the text
		return nil
	}
	return b
}

// tables5 reads the directories and files of version 5.
func (p *lineProgram) tables5(r *leb128.Reader, s *sections, wide bool) error {
	dirs, err := entries5(r, s, wide)
	if err != nil {
		return err
	}
	for _, d := range dirs {
		p.dirs = append(p.dirs, d.name)
	}
	p.files, err = entries5(r, s, wide)
	return err
}

// Contents of the entries of a header (DWARF 5, 7.22).
const (
	contentPath = 1
	contentDir  = 2
)

func entries5(r *leb128.Reader, s *sections, wide bool) (out []lineFile, err error) {
	type format struct{ content, form uint64 }
	formats := make([]format, r.Byte())
	for i := range formats {
		formats[i] = format{r.Uleb(), r.Uleb()}
	}
	count := r.Uleb()
	if count > min(uint64(r.Len()), maxFiles) || count > 0 && len(formats) == 0 {
		return nil, errLines
	}
	u := unit{version: 5, wide: wide, address: 8}
	for range count {
		var f lineFile
		from := r.Pos()
		for _, format := range formats {
			switch {
			case format.content == contentPath && format.form == formText:
				f.name = text(r)
			case format.content == contentPath && format.form == formLineStrp:
				f.name = textAt(s.lineText, offset(r, wide), maxPath+1)
			case format.content == contentPath && format.form == formStrp:
				f.name = textAt(s.text, offset(r, wide), maxPath+1)
			case format.content == contentDir && format.form == formUdata:
				f.dir = r.Uleb()
			case format.content == contentDir && format.form == formData1:
				f.dir = r.Uint(1)
			case format.content == contentDir && format.form == formData2:
				f.dir = r.Uint(2)
			case !skipForm(r, format.form, u):
				return nil, errLines
			}
		}
		if r.Failed() || r.Pos() == from {
			return nil, errLines
		}
		out = append(out, f)
	}
	return out, nil
}

const (
	maxPath  = 4096    // bytes of a path
	maxFiles = 1 << 20 // files of a line program, and directories
)

// path returns the path of a file by its number; "" if there is none.
func (p *lineProgram) path(file uint64) string {
	if file >= uint64(len(p.files)) {
		return ""
	}
	f := p.files[file]
	if len(f.name) == 0 || len(f.name) > maxPath {
		return ""
	}
	dir := []byte(nil)
	if f.dir < uint64(len(p.dirs)) {
		dir = p.dirs[f.dir]
	}
	return joinPath(p.unitDir, dir, f.name)
}

// joinPath returns the path of a file whose name may be relative to a directory, which may be
// relative to the directory of the compilation.
func joinPath(unitDir, dir, name []byte) string {
	if len(unitDir)+len(dir) > maxPath {
		unitDir, dir = nil, nil
	}
	switch {
	case path.IsAbs(string(name)):
		return path.Clean(string(name))
	case path.IsAbs(string(dir)):
		unitDir = nil
	}
	return path.Join(string(unitDir), string(dir), string(name))
}

// Opcodes (DWARF 5, 7.22).
const (
	lnsCopy             = 1
	lnsAdvancePC        = 2
	lnsAdvanceLine      = 3
	lnsSetFile          = 4
	lnsSetColumn        = 5
	lnsNegateStmt       = 6
	lnsSetBasicBlock    = 7
	lnsConstAddPC       = 8
	lnsFixedAdvancePC   = 9
	lnsSetPrologueEnd   = 10
	lnsSetEpilogueBegin = 11

	lneEndSequence = 1
	lneSetAddress  = 2
	lneDefineFile  = 3
)

// run calls visit with each row, until that returns false.
func (p *lineProgram) run(visit func(lineRow) bool) error {
	r := p.code
	first := lineRow{file: 1, line: 1, stmt: p.defaultStmt}
	row := first
	for r.Len() > 0 {
		op := r.Byte()
		switch {
		case op >= p.opcodeBase:
			by := uint64(op - p.opcodeBase)
			row.addr += by / p.lineRange * p.minLength
			row.line += uint32(p.lineBase + int64(by%p.lineRange))
			if !visit(row) {
				return nil
			}
		case op == 0:
			b := r.Block()
			if r.Failed() || len(b) == 0 {
				return errLines
			}
			e := leb128.NewReader(b[1:])
			switch b[0] {
			case lneEndSequence:
				row.end = true
				if !visit(row) {
					return nil
				}
				row = first
			case lneSetAddress:
				row.addr = e.Uint(min(e.Len(), 8))
			case lneDefineFile:
				f := lineFile{name: text(&e)}
				f.dir = e.Uleb()
				p.files = append(p.files, f)
			}
		case op == lnsCopy:
			if !visit(row) {
				return nil
			}
		case op == lnsAdvancePC:
			row.addr += r.Uleb() * p.minLength
		case op == lnsAdvanceLine:
			row.line += uint32(r.Sleb())
		case op == lnsSetFile:
			row.file = uint32(r.Uleb())
		case op == lnsNegateStmt:
			row.stmt = !row.stmt
		case op == lnsConstAddPC:
			row.addr += uint64(255-p.opcodeBase) / p.lineRange * p.minLength
		case op == lnsFixedAdvancePC:
			row.addr += r.Uint(2)
		default: // those without an effect here, and unknown ones
			for range p.lengths[op-1] {
				r.Uleb()
			}
		}
		if r.Failed() {
			return errLines
		}
	}
	return nil
}

// LineReader is that of package dwarf, which executes a damaged header of version 5 for as long
// as its counts say. The header is read here first.
func (d *Info) LineReader(unit *dwarf.Entry) (*dwarf.LineReader, error) {
	of := d
	if d.split != nil {
		of = d.split.d
	}
	if at, ok := unit.Val(dwarf.AttrStmtList).(int64); ok {
		if _, known := d.sound.Load(at); !known {
			s := sections{line: of.line, lineText: of.lineText}
			if _, err := s.linesAt(uint64(at), nil); err != nil {
				return nil, err
			}
			d.sound.Store(at, nil)
		}
	}
	return d.Data.LineReader(unit)
}

package debuginfo

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Position is a place in source code.
type Position struct {
	File string // path as the compiler was given it, absolute where it says the directory
	Line int    // from 1; 0: the compiler gave the code to no line
}

// sequence is a part of a line table with ascending addresses, up to the address high.
type sequence struct {
	low, high uint64
	rows      []lineRow
}

// Line returns the line that the instruction at an address was compiled from; false if the file
// has none. The return address of a call belongs to the instruction before it: callers pass
// that address less one.
func (s *Source) Line(addr uint64) (at Position, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = guard(func() error {
		if u := s.unitAt(addr); u != nil {
			at, ok = s.line(u, addr)
		}
		return nil
	})
	return at, ok
}

func (s *Source) line(u *codeUnit, addr uint64) (Position, bool) {
	if !s.readLines(u) {
		return Position{}, false
	}
	i, found := slices.BinarySearchFunc(u.sequences, addr, func(q sequence, addr uint64) int { return cmp.Compare(q.low, addr) })
	if !found {
		i--
	}
	if i < 0 || addr >= u.sequences[i].high {
		return Position{}, false
	}
	rows := u.sequences[i].rows
	k, found := slices.BinarySearchFunc(rows, addr, func(r lineRow, addr uint64) int { return cmp.Compare(r.addr, addr) })
	if !found {
		k--
	}
	if k < 0 {
		return Position{}, false
	}
	return Position{u.program.path(uint64(rows[k].file)), int(int32(rows[k].line))}, true
}

// readLines reads the line table of a unit; false if it has none.
func (s *Source) readLines(u *codeUnit) bool {
	if u.sequences != nil {
		return u.program != nil
	}
	u.sequences = []sequence{}
	if !u.hasLines {
		return false
	}
	p, err := s.programOf(u)
	if err != nil {
		return false
	}
	u.program = p
	var rows []lineRow
	kept := 0
	err = p.run(func(r lineRow) bool {
		if r.end {
			if low := first(rows); len(rows) > 0 && low > 1 && int64(low) > 0 && r.addr > low {
				u.sequences = append(u.sequences, newSequence(rows, r.addr))
				kept += len(u.sequences[len(u.sequences)-1].rows)
			}
			rows = rows[:0]
		} else {
			rows = append(rows, r)
		}
		return kept+len(rows) < maxRows
	})
	slices.SortStableFunc(u.sequences, func(a, b sequence) int { return cmp.Compare(a.low, b.low) })
	s.keep(u, kept)
	return err == nil || len(u.sequences) > 0
}

// first returns the lowest address of rows, which need not be in order.
func first(rows []lineRow) uint64 {
	low := ^uint64(0)
	for _, r := range rows {
		low = min(low, r.addr)
	}
	return low
}

// newSequence returns a sequence of rows. Of several at one address the last one counts.
func newSequence(rows []lineRow, high uint64) sequence {
	less := func(a, b lineRow) int { return cmp.Compare(a.addr, b.addr) }
	if !slices.IsSortedFunc(rows, less) {
		slices.SortStableFunc(rows, less)
	}
	out := make([]lineRow, 0, len(rows)/2)
	for i, r := range rows {
		if i+1 < len(rows) && rows[i+1].addr == r.addr {
			continue
		}
		if n := len(out); n == 0 || out[n-1].file != r.file || out[n-1].line != r.line {
			out = append(out, r)
		}
	}
	return sequence{rows[0].addr, high, slices.Clip(out)}
}

// keep counts what u keeps, and makes the other units forget theirs if it is too much.
func (s *Source) keep(u *codeUnit, n int) {
	if s.kept += n; s.kept <= maxKept {
		return
	}
	for _, other := range s.units {
		if other != u {
			other.program, other.sequences, other.functions = nil, nil, nil
		}
	}
	s.kept = n
}

func (s *Source) programOf(u *codeUnit) (*lineProgram, error) {
	dir := s.sections.textOf(u, u.dir)
	return s.sections.linesAt(u.lines, dir)
}

// LineAddress is an address at which code of a line begins.
type LineAddress struct {
	Addr uint64
	Position
}

// maxAddresses limits the addresses that one line can have.
const maxAddresses = 1 << 16

// Addresses returns the addresses at which code of a line begins that is a statement: where the
// line table goes to the line from another one, and the first of each sequence. They are
// in ascending order. file is a path, or its last parts ("parse.c", "src/parse.c"). files are
// the files that it denotes, also where the line has no code; other is then the next line of
// these that has, 0 if there is none.
func (s *Source) Addresses(file string, line int) (found []LineAddress, files []string, other int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err = guard(func() error {
		read := map[uint64]bool{}    // programs: several units can share one
		left := len(s.sections.line) // programs do not overlap, except in a damaged file
		for _, u := range s.units {
			if !u.hasLines || read[u.lines] {
				continue
			}
			read[u.lines] = true
			p, err := s.programOf(u)
			if p != nil {
				left -= p.size
			}
			if left < 0 {
				return errLines
			}
			if err != nil {
				continue
			}
			paths := p.pathsOf(file)
			if len(paths) == 0 {
				continue
			}
			for _, path := range paths {
				if !slices.Contains(files, path) {
					files = append(files, path)
				}
			}
			part, next := p.addresses(paths, line)
			if found = append(found, part...); len(found) > maxAddresses {
				return errLines
			}
			if next > 0 && (other == 0 || next < other) {
				other = next
			}
		}
		return nil
	})
	if len(found) > 0 {
		other = 0
	}
	slices.Sort(files)
	slices.SortFunc(found, func(a, b LineAddress) int { return cmp.Compare(a.Addr, b.Addr) })
	return slices.CompactFunc(found, func(a, b LineAddress) bool { return a == b }), files, other, err
}

// pathsOf returns the paths of the files, by their numbers, that a path or its last parts denote.
func (p *lineProgram) pathsOf(file string) map[uint64]string {
	base := file[strings.LastIndexByte(file, '/')+1:]
	var out map[uint64]string
	for i, f := range p.files {
		if string(f.name[bytes.LastIndexByte(f.name, '/')+1:]) != base {
			continue
		}
		path := p.path(uint64(i))
		if path != file && !strings.HasSuffix(path, "/"+file) {
			continue
		}
		if out == nil {
			out = map[uint64]string{}
		}
		out[uint64(i)] = path
	}
	return out
}

// addresses returns where code of a line of files begins, and the next line that has code.
func (p *lineProgram) addresses(paths map[uint64]string, line int) (found []LineAddress, next int) {
	var sequence []LineAddress
	low, inside := ^uint64(0), false // inside: the rows before are of the line, and one of them was found
	_ = p.run(func(r lineRow) bool {
		if r.end {
			if low > 1 && int64(low) > 0 {
				found = append(found, sequence...)
			}
			sequence, low, inside = sequence[:0], ^uint64(0), false
			return len(found) <= maxAddresses
		}
		low = min(low, r.addr)
		path, ours := paths[uint64(r.file)]
		switch {
		case !ours || int(r.line) != line:
			inside = false
			if ours && r.stmt && int(r.line) > line && (next == 0 || int(r.line) < next) {
				next = int(r.line)
			}
		case r.stmt && !inside:
			inside = true
			sequence = append(sequence, LineAddress{r.addr, Position{path, line}})
		}
		return len(sequence) <= maxAddresses
	})
	return found, next
}

// String returns "FILE:LINE".
func (p Position) String() string { return p.File + ":" + strconv.Itoa(p.Line) }

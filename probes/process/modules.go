package process

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Mapping is a part of a file that a process has mapped, executable unless
// stated otherwise.
type Mapping struct {
	Path       string // as reported by the kernel, without " (deleted)"; inside the process's root
	Dev, Inode uint64 // as in /proc/PID/maps; Dev as unix.Mkdev encodes it
	Start, End uint64 // addresses
	Offset     uint64 // of Start, in the file
	Deleted    bool   // the file was unlinked
}

// maxMaps limits the bytes read of a maps file: a process may have 65,530
// mappings by default, of about 100 bytes each.
const maxMaps = 64 << 20

// Modules returns the files that pid has mapped executable, by address: the
// first executable mapping of each.
func Modules(pid int) ([]Mapping, error) {
	b, err := readMaps(pid)
	if err != nil {
		return nil, err
	}
	return parseMaps(b), nil
}

// ExecPatience is how long a process may be in the middle of exec(2): a matter of
// microseconds, unless others have the processors.
const ExecPatience = 3 * time.Second

// LoadedModules is Modules of a process that has an executable. A process in the
// middle of exec(2) has no code yet although its parent already knows that exec
// succeeded; LoadedModules waits until the kernel has mapped the executable. Of a
// process that maps no code it returns none after some seconds.
func LoadedModules(pid int) ([]Mapping, error) {
	for deadline := time.Now().Add(ExecPatience); ; time.Sleep(time.Millisecond) {
		mappings, err := Modules(pid)
		if err != nil || len(mappings) > 0 || time.Now().After(deadline) {
			return mappings, err
		}
		var buf [statBytes]byte
		var s Stat
		if !readStat(pid, buf[:], &s) || s.Ended() {
			return nil, nil
		}
	}
}

// Text returns everything that pid may execute, by address: the executable
// mappings of files, and those of no file, such as [vdso] and code compiled at
// run time.
func Text(pid int) ([]Mapping, error) {
	b, err := readMaps(pid)
	if err != nil {
		return nil, err
	}
	var out []Mapping
	for line := range bytes.Lines(b) {
		if m, ok := parseText(bytes.TrimSuffix(line, []byte{'\n'})); ok {
			out = append(out, m)
		}
	}
	return out, nil
}

// Mappings returns all mappings of pid, by address, with any permissions.
// Anonymous memory has no inode.
func Mappings(pid int) ([]Mapping, error) {
	b, err := readMaps(pid)
	if err != nil {
		return nil, err
	}
	var out []Mapping
	for line := range bytes.Lines(b) {
		if m, ok := parseLine(bytes.TrimSuffix(line, []byte{'\n'})); ok {
			out = append(out, m)
		}
	}
	return out, nil
}

// readMaps reads the maps file of a process.
func readMaps(pid int) ([]byte, error) {
	f, err := os.Open(path(pid, "maps"))
	if err != nil {
		return nil, fmt.Errorf("mappings of process %d cannot be read: %w", pid, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxMaps))
	if err != nil {
		return nil, fmt.Errorf("mappings of process %d cannot be read: %w", pid, err)
	}
	return b, nil
}

// parseMaps parses lines such as
//
//	55f4c1c0a000-55f4c1c2c000 r-xp 00002000 08:01 1234      /usr/bin/x (deleted)
//
// and keeps the first executable one of each file. Malformed lines are skipped.
func parseMaps(b []byte) []Mapping {
	type file struct{ dev, inode uint64 }
	var out []Mapping
	seen := map[file]bool{}
	for len(b) > 0 {
		var line []byte
		line, b, _ = bytes.Cut(b, []byte{'\n'})
		m, ok := parseMapping(line)
		if !ok || seen[file{m.Dev, m.Inode}] {
			continue
		}
		seen[file{m.Dev, m.Inode}] = true
		out = append(out, m)
	}
	return out
}

// parseMapping parses a line of maps and reports whether it is an executable
// mapping of a file.
func parseMapping(line []byte) (m Mapping, ok bool) {
	m, ok = parseText(line)
	if !ok || m.Inode == 0 || len(m.Path) == 0 || m.Path[0] != '/' {
		return Mapping{}, false
	}
	return m, true
}

// parseText is parseMapping for executable mappings of anything: those of no
// file have no inode, and a path such as [vdso] or none.
func parseText(line []byte) (m Mapping, ok bool) {
	// A quick check, since most lines are not executable.
	if i := bytes.IndexByte(line, ' '); i < 0 || len(line) < i+4 || line[i+3] != 'x' {
		return Mapping{}, false
	}
	return parseLine(line)
}

// parseLine parses a line of maps.
func parseLine(line []byte) (m Mapping, ok bool) {
	var good [6]bool
	m.Start, line, good[0] = hex(line, '-')
	m.End, line, good[1] = hex(line, ' ')
	if len(line) < 5 || line[4] != ' ' {
		return Mapping{}, false
	}
	m.Offset, line, good[2] = hex(line[5:], ' ')
	var major, minor uint64
	major, line, good[3] = hex(line, ':')
	minor, line, good[4] = hex(line, ' ')
	inode, rest := number(line)
	good[5] = len(rest) < len(line) && inode >= 0
	if good != [6]bool{true, true, true, true, true, true} || m.Start >= m.End {
		return Mapping{}, false
	}
	m.Dev, m.Inode = mkdev(major, minor), uint64(inode)
	name := bytes.TrimLeft(rest, " ")
	name, m.Deleted = bytes.CutSuffix(name, deletedSuffix)
	// The kernel escapes a line break in a name as \012, and nothing else.
	m.Path = strings.ReplaceAll(string(name), `\012`, "\n")
	return m, true
}

// hex parses a hexadecimal number that ends in sep, and returns what follows.
func hex(b []byte, sep byte) (v uint64, rest []byte, ok bool) {
	for i, c := range b {
		switch {
		case c == sep:
			return v, b[i+1:], i > 0
		case i == 16:
			return 0, nil, false
		case '0' <= c && c <= '9':
			v = v<<4 | uint64(c-'0')
		case 'a' <= c && c <= 'f':
			v = v<<4 | uint64(c-'a'+10)
		default:
			return 0, nil, false
		}
	}
	return 0, nil, false
}

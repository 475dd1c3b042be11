package perfmap

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/tidwall/btree"

	"endoscope/probes/process"
)

// Entry is a piece of code.
type Entry struct {
	Start, End uint64
	Name       string
}

// Map is the code of one process. It is used by one goroutine at a time.
type Map struct {
	pid     int
	path    string
	read    int64 // bytes of the file read
	partial []byte
	entries btree.Map[uint64, Entry] // by start; none overlap
	looked  time.Time
	whole   bool // the file is not appended to but replaced; Renew reads it
}

// Limits on the values accepted from a file, and intervals of reading it again.
const (
	maxFile    = 256 << 20
	maxEntries = 1 << 20
	maxName    = 400
	again      = 100 * time.Millisecond // after an address in no known code
	late       = time.Second            // after one in known code
)

// Open reads the file of a process; it returns an error if there is none.
func Open(pid int) (*Map, error) {
	inner := process.InnerPID(pid)
	m := &Map{pid: pid, path: fmt.Sprintf("/tmp/perf-%d.map", inner)}
	return m, m.refresh()
}

// Renew reads the file from its beginning, for a process that rewrites it on
// request instead of appending. From then on only Renew reads it.
func (m *Map) Renew() error {
	m.whole, m.read, m.partial = true, 0, nil
	m.entries.Clear()
	return m.refresh()
}

// refresh reads what was appended to the file.
func (m *Map) refresh() error {
	m.looked = time.Now()
	f, err := process.OpenOwn(m.pid, m.path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if st.Size() < m.read { // it was truncated
		m.read, m.partial = 0, nil
		m.entries.Clear()
	}
	if st.Size() == m.read || m.read >= maxFile {
		return nil
	}
	text, err := io.ReadAll(io.NewSectionReader(f, m.read, min(st.Size(), maxFile)-m.read))
	if err != nil {
		return err
	}
	m.read += int64(len(text))
	m.enter(text)
	return nil
}

// enter parses what was appended to the file. An incomplete line is kept.
func (m *Map) enter(text []byte) {
	text = append(m.partial, text...)
	for {
		line, rest, ok := bytes.Cut(text, []byte{'\n'})
		if !ok {
			break
		}
		if e, ok := parse(line); ok && m.entries.Len() < maxEntries {
			m.add(e)
		}
		text = rest
	}
	m.partial = append([]byte(nil), text[:min(len(text), 1<<16)]...)
}

// add enters code, and removes what was at its addresses before.
func (m *Map) add(e Entry) {
	var gone []uint64
	m.entries.Descend(e.End-1, func(start uint64, have Entry) bool {
		if have.End <= e.Start {
			return false
		}
		gone = append(gone, start)
		return true
	})
	for _, start := range gone {
		m.entries.Delete(start)
	}
	m.entries.Set(e.Start, e)
}

// parse parses a line: start and size in hexadecimal, and a name.
func parse(line []byte) (e Entry, ok bool) {
	start, rest, ok1 := bytes.Cut(line, []byte{' '})
	size, name, ok2 := bytes.Cut(rest, []byte{' '})
	if !ok1 || !ok2 || len(name) == 0 {
		return e, false
	}
	from, err1 := strconv.ParseUint(string(bytes.TrimPrefix(start, []byte("0x"))), 16, 64)
	n, err2 := strconv.ParseUint(string(bytes.TrimPrefix(size, []byte("0x"))), 16, 64)
	if err1 != nil || err2 != nil || n == 0 || n > 1<<32 || from > 1<<48 {
		return e, false
	}
	return Entry{from, from + n, string(name[:min(len(name), maxName)])}, true
}

// Find returns the code at an address; false if none is known. It checks at
// intervals whether the file has grown, since other code may be at the address.
func (m *Map) Find(addr uint64) (e Entry, ok bool) {
	e, ok = m.find(addr)
	if since := time.Since(m.looked); m.whole || ok && since < late || since < again {
		return e, ok
	}
	_ = m.refresh() // if the file is gone, the known entries are kept
	return m.find(addr)
}

func (m *Map) find(addr uint64) (e Entry, ok bool) {
	m.entries.Descend(addr, func(_ uint64, have Entry) bool {
		e, ok = have, addr < have.End
		return false
	})
	return e, ok
}

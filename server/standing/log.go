package standing

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"

	"endoscope/server/wire"
)

// Sizes of a query's log.
const (
	segmentBytes = 4 << 20
	mostBytes    = 64 << 20 // of all segments; the oldest ones are removed beyond it
	mostRecord   = 256 << 20
)

// log is the stored results of a query. It is not safe for concurrent use; its segments may
// be read meanwhile.
type log struct {
	dir      string
	full     int64      // size of a segment from which on another one is begun
	most     int64      // and of all segments
	segments []*segment // in order of their numbers
	file     *os.File   // the last segment
}

// segment is a file of records.
type segment struct {
	number uint64 // of its first record, from 1
	path   string
	count  uint64
	size   int64
}

// record is the header of a record, which is followed by the parts of its rows:
//
//	length(4) checksum(4) length(4) header, parts
//
// The length and the checksum are those of all that follows.
type record struct {
	wire.StandingWindow
	Parts []int `json:"parts"` // their lengths
}

const prefixBytes = 8

// openLog opens the log in a directory, and returns where it ends.
func openLog(dir string) (*log, *wire.StandingStored, error) {
	l := &log{dir: dir, full: segmentBytes, most: mostBytes}
	paths, err := filepath.Glob(filepath.Join(dir, "*.rows"))
	if err != nil {
		return nil, nil, err
	}
	slices.Sort(paths)
	var stored *wire.StandingStored
	for i, path := range paths {
		g := &segment{path: path}
		if _, err := fmt.Sscanf(filepath.Base(path), "%016x.rows", &g.number); err != nil {
			return nil, nil, err
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return nil, nil, err
		}
		for {
			r, _, next, err := readRecord(f, g.size)
			if errors.Is(err, errNoRecord) {
				break
			}
			if err != nil {
				return nil, nil, errors.Join(err, f.Close())
			}
			stored = after(stored, r.StandingWindow)
			g.count, g.size = g.count+1, next
		}
		l.segments = append(l.segments, g)
		if i < len(paths)-1 {
			_ = f.Close()
			continue
		}
		if err := f.Truncate(g.size); err != nil { // a record that was being written
			return nil, nil, errors.Join(err, f.Close())
		}
		l.file = f
	}
	return l, stored, nil
}

var errNoRecord = errors.New("there is no record")

// readRecord reads the record at an offset.
func readRecord(f io.ReaderAt, at int64) (r *record, parts [][]byte, next int64, err error) {
	var prefix [prefixBytes]byte
	if err := readAll(f, prefix[:], at); err != nil {
		return nil, nil, at, err
	}
	n := binary.LittleEndian.Uint32(prefix[:])
	if n < 4 || n > mostRecord {
		return nil, nil, at, errNoRecord
	}
	body := make([]byte, n)
	if err := readAll(f, body, at+prefixBytes); err != nil {
		return nil, nil, at, err
	}
	if crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(prefix[4:]) {
		return nil, nil, at, errNoRecord
	}
	head := binary.LittleEndian.Uint32(body)
	rest := body[4:]
	r = &record{}
	if uint64(head) > uint64(len(rest)) || json.Unmarshal(rest[:head], r) != nil {
		return nil, nil, at, errNoRecord
	}
	rest = rest[head:]
	for _, size := range r.Parts {
		if size < 0 || size > len(rest) {
			return nil, nil, at, errNoRecord
		}
		parts, rest = append(parts, rest[:size]), rest[size:]
	}
	return r, parts, at + prefixBytes + int64(n), nil
}

// readAll fills b from an offset. errNoRecord: the file ends before.
func readAll(f io.ReaderAt, b []byte, at int64) error {
	n, err := f.ReadAt(b, at)
	switch {
	case n == len(b):
		return nil
	case err == io.EOF:
		return errNoRecord
	}
	return err
}

// append stores a result. If results before it are missing, it begins another segment.
func (l *log) append(of wire.StandingRecord) error {
	r := record{StandingWindow: of.Window}
	for _, p := range of.Parts {
		r.Parts = append(r.Parts, len(p))
	}
	head, err := json.Marshal(r)
	if err != nil {
		return err
	}
	body := binary.LittleEndian.AppendUint32(nil, uint32(len(head)))
	body = append(body, head...)
	for _, p := range of.Parts {
		body = append(body, p...)
	}
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
	out = binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(body))
	if err := l.room(of.Number); err != nil {
		return err
	}
	last := l.segments[len(l.segments)-1]
	if _, err = l.file.WriteAt(append(out, body...), last.size); err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("a result cannot be stored: %w", err)
	}
	last.count++
	last.size += prefixBytes + int64(len(body))
	return nil
}

// room begins another segment if there is none, the last one is full, or another result than
// the one with this number would follow there. It removes the oldest ones.
func (l *log) room(number uint64) error {
	if n := len(l.segments); n > 0 && l.segments[n-1].size < l.full && l.end() == number {
		return nil
	}
	for l.size() > l.most-l.full && len(l.segments) > 1 {
		if err := os.Remove(l.segments[0].path); err != nil {
			return err
		}
		l.segments = l.segments[1:]
	}
	path := filepath.Join(l.dir, fmt.Sprintf("%016x.rows", number))
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("a result cannot be stored: %w", err)
	}
	l.close()
	l.file, l.segments = f, append(l.segments, &segment{number: number, path: path})
	return nil
}

func (l *log) size() (n int64) {
	for _, g := range l.segments {
		n += g.size
	}
	return n
}

func (l *log) close() {
	if l.file != nil {
		_ = l.file.Close()
		l.file = nil
	}
}

// end returns the number of the next record.
func (l *log) end() uint64 {
	if n := len(l.segments); n > 0 {
		return l.segments[n-1].number + l.segments[n-1].count
	}
	return 1
}

package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxLine limits a line, and a CSV record.
const MaxLine = 16 << 20

// lines splits a reader into lines without copying them.
type lines struct {
	r          io.Reader
	buf        []byte
	start, end int   // what is read and not yet returned
	number     int64 // of the last line returned, from 1
	terminated bool  // whether that line ended in a line break
	eof        bool
}

// wholeReader reads a file up to the size that it had. A file that has become shorter has no
// end there, but is broken.
type wholeReader struct {
	file io.ReaderAt
	size int64
	at   int64
}

var errShorter = errors.New("the file became shorter while it was read")

func (r *wholeReader) Read(b []byte) (int, error) {
	if r.at == r.size {
		return 0, io.EOF
	}
	n, err := r.file.ReadAt(b[:min(int64(len(b)), r.size-r.at)], r.at)
	r.at += int64(n)
	if err == io.EOF {
		if err = nil; r.at < r.size {
			err = errShorter
		}
	}
	return n, err
}

var byteOrderMark = []byte("\xef\xbb\xbf")

func newLines(r io.Reader) *lines { return &lines{r: r, buf: make([]byte, 256<<10)} }

// next returns the next line without its end (\n, \r\n, or a \r before the end
// of the file). It is valid until the next call. The error is io.EOF after the
// last line.
func (l *lines) next() ([]byte, error) {
	searched := 0 // bytes known to contain no line end
	for {
		if i := bytes.IndexByte(l.buf[l.start+searched:l.end], '\n'); i >= 0 {
			return l.emitLine(searched+i, true)
		}
		searched = l.end - l.start
		switch {
		case l.eof && searched == 0:
			return nil, io.EOF
		case l.eof || searched > MaxLine:
			return l.emitLine(searched, false)
		}
		if err := l.fill(); err != nil {
			return nil, err
		}
	}
}

// fill reads more, after moving the unread bytes to the front.
func (l *lines) fill() error {
	if l.start > 0 {
		l.end = copy(l.buf, l.buf[l.start:l.end])
		l.start = 0
	}
	if l.end == len(l.buf) {
		l.buf = append(l.buf, make([]byte, len(l.buf))...)
	}
	n, err := l.r.Read(l.buf[l.end:])
	l.end += n
	if err == io.EOF {
		l.eof, err = true, nil
	}
	return err
}

func (l *lines) emitLine(n int, terminated bool) ([]byte, error) {
	if n > MaxLine {
		return nil, fmt.Errorf("line %d is longer than %d MiB", l.number+1, MaxLine>>20)
	}
	line := l.buf[l.start : l.start+n]
	l.start += n
	if l.terminated = terminated; terminated {
		l.start++
	}
	if l.number == 0 {
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	l.number++
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, nil
}

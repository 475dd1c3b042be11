package runner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// File is a file of rows. What it had before is kept until the first row is written, so that
// a statement with a mistake does not erase it.
type File struct {
	*os.File
	path             string // without symbolic links
	existed, regular bool
	began, written   bool // a result; its first bytes
	cut              bool // a result has ended with an error after it had begun
}

// Incomplete is appended to the name of a file whose last result was cut off.
const Incomplete = ".incomplete"

// CreateFile opens a file for rows.
func CreateFile(name string) (*File, error) {
	_, err := os.Stat(name)
	existed := !errors.Is(err, fs.ErrNotExist)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	path, err := filepath.EvalSymlinks(name)
	if err != nil {
		path = name
	}
	return &File{File: f, path: path, existed: existed, regular: info.Mode().IsRegular()}, nil
}

// Write implements io.Writer. The first removes what the file had.
func (f *File) Write(b []byte) (int, error) {
	if err := f.empty(); err != nil {
		return 0, err
	}
	return f.File.Write(b)
}

func (f *File) empty() error {
	if f.written || !f.regular {
		return nil
	}
	f.written = true
	return f.Truncate(0)
}

// Close closes the file. A file in which a result was cut off is not left as if it were
// complete: it is renamed, and the new name returned. If nothing was written, what was there
// before is there again.
func (f *File) Close() (renamed string, err error) {
	if f.began && !f.cut {
		err = f.empty() // a result without rows may have written nothing
	}
	err = errors.Join(err, f.File.Close())
	switch {
	case !f.regular:
	case f.cut && f.written:
		renamed = f.path + Incomplete
		err = errors.Join(err, os.Rename(f.path, renamed))
	case !f.written && !f.existed:
		err = errors.Join(err, os.Remove(f.path))
	}
	return renamed, err
}

package procfs

import (
	"golang.org/x/sys/unix"
)

// file is a file of /proc that is read repeatedly. If the budget allows, it
// stays open; the descriptor then also pins the process: a later process with
// the same pid is never read through it.
type file struct {
	dir    int    // directory that contains name
	name   string // relative to dir, or an absolute path
	fd     int    // -1: not open
	budget *int   // descriptors that may still be kept open; nil: no limit
}

// newFile describes a file without opening it.
func newFile(dir int, name string, budget *int) file {
	return file{dir: dir, name: name, fd: -1, budget: budget}
}

// maxFile limits a buffer, far above the size of any file read here.
const maxFile = 16 << 20

// read reads the whole file into buf, growing it if needed, and returns the
// content. The kernel regenerates most of these files at a read from offset 0,
// and continues a long one at the following offsets.
func (f *file) read(buf *[]byte) ([]byte, error) {
	if f.fd < 0 {
		fd, err := unix.Openat(f.dir, f.name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		f.fd = fd
		if f.budget != nil {
			if *f.budget == 0 {
				defer f.close()
			}
			*f.budget--
		}
	}
	for n := 0; ; {
		m, err := unix.Pread(f.fd, (*buf)[n:], int64(n))
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, err
		case m == 0:
			return (*buf)[:n], nil
		}
		if n += m; n == len(*buf) {
			if n >= maxFile {
				return nil, unix.EFBIG
			}
			*buf = append(*buf, make([]byte, n)...)
		}
	}
}

func (f *file) close() {
	if f.fd < 0 {
		return
	}
	unix.Close(f.fd)
	f.fd = -1
	if f.budget != nil {
		*f.budget++
	}
}

// directory lists a directory of /proc whose entries are numbers.
type directory struct {
	fd  int
	buf [4096]byte
}

// numbers calls visit with each entry that is a number.
func (d *directory) numbers(visit func(n int)) error {
	if _, err := unix.Seek(d.fd, 0, unix.SEEK_SET); err != nil {
		return err
	}
	for {
		n, err := unix.Getdents(d.fd, d.buf[:])
		if err == unix.EINTR {
			continue
		}
		if n <= 0 || err != nil {
			return err
		}
		// struct linux_dirent64: inode 8 bytes, offset 8, record length 2,
		// type 1, name ending in 0.
		for b := d.buf[:n]; len(b) > 19; {
			length := int(b[16]) | int(b[17])<<8
			if length <= 19 || length > len(b) {
				break
			}
			name := text(b[19:length])
			if v, ok := name.uint(); ok && len(name) > 0 && name[0] == 0 {
				visit(int(v))
			}
			b = b[length:]
		}
	}
}

func (d *directory) close() {
	if d.fd >= 0 {
		unix.Close(d.fd)
		d.fd = -1
	}
}

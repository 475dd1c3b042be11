package elf

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// buildIDPath returns where the debug file of a build-id is installed.
func buildIDPath(root, id string) string {
	return filepath.Join(root, ".build-id", id[:2], id[2:]+".debug")
}

// openRegular opens an ELF file; nil if there is none at path.
func openRegular(path string) (*Image, *os.File) {
	// The path may be what a program says: opening a device can have effects.
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		return nil, nil
	}
	// O_NONBLOCK: opening a pipe in place of the file must not block.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil
	}
	im, err := readImage(f)
	if err != nil {
		f.Close()
		return nil, nil
	}
	return im, f
}

// maxSummed limits the size of debug files whose checksum is computed.
const maxSummed = 4 << 30

// hasSum reports whether a file has the checksum of a .gnu_debuglink.
func hasSum(f *os.File, size int64, want uint32) bool {
	if size > maxSummed {
		return false
	}
	h := crc32.NewIEEE()
	n, err := io.Copy(h, io.NewSectionReader(f, 0, size))
	return err == nil && n == size && h.Sum32() == want
}

// sharedBy returns the supplementary file that im names, and its identity in
// hex: .gnu_debugaltlink, or .debug_sup (DWARF 5, 7.3.6).
func sharedBy(im *Image) (name, id string) {
	if b, _, _ := im.Section(".gnu_debugaltlink"); b != nil {
		link, id, _ := bytes.Cut(b, []byte{0})
		return string(link), hex.EncodeToString(id)
	}
	if own, sum, ok := supplementOf(im); ok && !own {
		b, _, _ := im.Section(".debug_sup")
		link, _, _ := bytes.Cut(b[3:], []byte{0})
		return string(link), sum
	}
	return "", ""
}

// supplementOf reads .debug_sup: whether the file is a supplementary one, and
// the checksum, in hex, of itself or of its supplementary file.
func supplementOf(im *Image) (own bool, sum string, ok bool) {
	b, _, _ := im.Section(".debug_sup")
	if len(b) < 4 || b[0] != 5 || b[1] != 0 {
		return false, "", false
	}
	_, id, found := bytes.Cut(b[3:], []byte{0})
	n, width := binary.Uvarint(id)
	if !found || width <= 0 || n != uint64(len(id)-width) {
		return false, "", false
	}
	return b[2] != 0, hex.EncodeToString(id[width:]), true
}

// pathOf returns the absolute path of an open file, "" if it has been unlinked.
func pathOf(f *os.File) string {
	raw, err := f.SyscallConn()
	if err != nil {
		return ""
	}
	var path string
	raw.Control(func(fd uintptr) {
		path, _ = os.Readlink(filepath.Join("/proc/self/fd", strconv.FormatUint(uint64(fd), 10)))
	})
	if !filepath.IsAbs(path) || strings.HasSuffix(path, " (deleted)") {
		return ""
	}
	return path
}

// CheckBuildID refuses a file that is no ELF file with a build-id; the error
// says what the file is instead.
func CheckBuildID(f *os.File, want string) error {
	im, err := readImage(f)
	switch {
	case err != nil:
		return fmt.Errorf("is %w", err)
	case im.buildID != want:
		return fmt.Errorf("is of another build: %s", cmp.Or(im.buildID, "it has no build-id"))
	}
	return nil
}

// Path returns the absolute path of the module's file, as this process reaches
// it; "" if there is another file, or none, at its path: it may be in a
// container.
func (m *Module) Path() string {
	if m.image.file == nil {
		return ""
	}
	path := pathOf(m.image.file)
	own, err := m.image.file.Stat()
	there, wrong := os.Stat(path)
	if err != nil || wrong != nil || !os.SameFile(own, there) {
		return ""
	}
	return path
}
